"""A static web site on loopback for benchmarks, in a process of its own: pages of real HTML in a folder, each linked.

The index links to all; a page has the links that its HTML has. Prints its port, and ends with its standard input.
"""

import asyncio
import sys
from pathlib import Path


def answers(folder: Path, copies: int) -> dict[str, bytes]:
    """The whole answer to a GET by path; each page stands there `copies` times, under names of their own."""
    pages = {
        f"/docs/{copy}/{path.name}": path.read_bytes()
        for copy in range(copies)
        for path in sorted(folder.glob("*.html"))
    }
    index = "".join(f'<a href="{path}">{path}</a>\n' for path in pages).encode()
    return {
        "/robots.txt": _answer(b"200 OK", b"text/plain", b"User-agent: *\nDisallow:\n"),
        "/": _answer(b"200 OK", b"text/html", b"<html><body>" + index + b"</body></html>"),
        **{path: _answer(b"200 OK", b"text/html; charset=utf-8", body) for path, body in pages.items()},
    }


def _answer(status: bytes, kind: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body)


async def serve(known: dict[str, bytes]) -> None:
    missing = _answer(b"404 Not Found", b"text/html", b"There is no such page.")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                writer.write(known.get(head.split(b" ", 2)[1].decode(), missing))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(answers(Path(sys.argv[1]), int(sys.argv[2]))))
