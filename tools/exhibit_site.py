"""The exhibit as a web site on loopback, for as long as a command runs.

Beside the pages it has what sites have: robots.txt with a part that is disallowed, a sitemap, redirects, links that
lead nowhere, a picture, a calendar without an end, session ids, a page that asks not to be kept.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tools import exhibit

HOST = "exhibit.test"
HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
Answer = tuple[int, dict[str, str], bytes]


class Site:
    """What is answered to a GET of each path; a function of the pages alone."""

    def __init__(self, pages: Path) -> None:
        self._pages = pages
        self.names = sorted(page.name for page in pages.glob("*.html"))
        self.junk = {
            "/robots.txt": self._said(
                TEXT, f"User-agent: *\nDisallow: /private/\nSitemap: http://{HOST}/sitemap.xml\n".encode()
            ),
            "/sitemap.xml": self._said("application/xml", self._sitemap()),
            "/picture.png": self._said("image/png", b"\x89PNG\r\n\x1a\n" + bytes(1000)),
            "/private/notes.html": self._said(HTML, _page("Private", ["Not for crawlers."])),
            "/draft.html": self._said(
                HTML, _page("Draft", ["Not to be kept."], head='<meta name="robots" content="noindex">')
            ),
            "/round": (302, {"Location": "/round"}, b""),
            "/latest/": (301, {"Location": "/docs/"}, b""),
            "/docs/": (301, {"Location": "/"}, b""),
        }
        self.junk["/"] = self._said(HTML, self._index())

    def answer(self, target: str) -> Answer:
        """Status, headers and body; `target` is the path with its query."""
        split = urlsplit(target)
        if split.path in self.junk:
            return self.junk[split.path]
        if split.path == "/calendar":
            day = int(parse_qs(split.query).get("day", ["0"])[0][:9] or 0)
            following = "".join(f'<a href="/calendar?day={day + each}">later</a> ' for each in (1, 7, 30))
            return self._said(HTML, _page(f"Day {day}", [following]))
        folder, _, name = split.path.rpartition("/")
        if folder == "/docs" and name in self.names:
            return self._said(HTML, (self._pages / name).read_bytes())
        return 404, {"Content-Type": HTML}, _page("Not found", ["There is no such page."])

    def _index(self) -> bytes:
        """Every second page; the others are in the sitemap, and what pages link to."""
        links = [
            f'<a href="docs/{escape(name)}{f"?sid={index:032x}" if index % 10 == 4 else ""}">{escape(name)}</a>'
            for index, name in enumerate(self.names[::2])
        ]
        listed = [path for path in self.junk if path not in ("/robots.txt", "/sitemap.xml")]
        others = (*listed, "/gone.html", "/calendar", "mailto:a@b.example", "javascript:void(0)")
        junk = [f'<a href="{path}">{path}</a>' for path in others]
        return _page("The standard library", [" ".join(links), " ".join(junk)])

    def _sitemap(self) -> bytes:
        urls = "".join(f"<url><loc>http://{HOST}/docs/{escape(name)}</loc></url>\n" for name in self.names)
        head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        return f"{head}{urls}</urlset>\n".encode()

    @staticmethod
    def _said(kind: str, body: bytes) -> Answer:
        return 200, {"Content-Type": kind}, body


def _page(title: str, paragraphs: list[str], head: str = "") -> bytes:
    body = "".join(f"<p>{each}</p>\n" for each in paragraphs)
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>\n{body}</body></html>\n".encode()


@contextlib.contextmanager
def serving(site: Site, port: int = 0, listen: str = "127.0.0.1") -> Iterator[str]:
    """Serve, on loopback unless told otherwise; the address. Raises OSError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = site.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a crawler that goes away in the middle is none of ours

    with Server((listen, port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"{listen}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def main() -> int:
    """Serve, run the command, end as it ended."""
    parser = argparse.ArgumentParser(
        description="Serve the exhibit, real HTML pages, as a web site on loopback while a command runs.",
        epilog=f"{{address}} in the command becomes the site's address. Its pages name themselves http://{HOST}/.",
    )
    parser.add_argument("--folder", type=Path, default=Path("build/exhibit"), help="where exhibits are kept")
    parser.add_argument("--pages", type=int, default=None, help="the first so many pages (all)")
    parser.add_argument("--listen", default="127.0.0.1", help="address to serve at (%(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --; without one, serve until Ctrl-C")
    arguments = parser.parse_args()
    command = [part for part in arguments.command if part != "--"]
    try:
        made = exhibit.build(arguments.folder, pages=arguments.pages)
        if arguments.pages is None:
            exhibit.point(arguments.folder, made)
        with serving(Site(made.folder), arguments.port, arguments.listen) as address:
            return _run([part.replace("{address}", address) for part in command], address)
    except (exhibit.ExhibitError, OSError) as error:
        print(f"exhibit: {error}", file=sys.stderr)
        return 1


def _run(command: list[str], address: str) -> int:
    if not command:
        print(f"http://{address}/ until Ctrl-C", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
        return 0
    child = subprocess.Popen(command)
    # Ctrl-C of a terminal reaches the command by itself; what is sent to this process alone is passed on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
