"""A static web site on loopback for benchmarks, in a process of its own: pages of real HTML in a folder, each linked.

The index links to all; a page has the links that its HTML has. Below /wide/N is an index of N lists, each of LINKS
links to small pages, no two with names that differ in digits alone. Prints its port, and ends with its standard input.
"""

import asyncio
import sys
from pathlib import Path

LINKS = 1000
_SYLLABLES = ("ba", "de", "fi", "go", "hu", "ka", "le", "mi", "no", "pu")


def name(number: int) -> str:
    return "-".join(_SYLLABLES[int(digit)] for digit in f"{number:09}")


def wide(path: str) -> bytes | None:
    """The answer to a path below /wide/, None to others."""
    parts = path.split("/")[1:]
    match parts:
        case ["wide", count] if count.isdecimal():
            links = [f"{path}/lists/{name(each)}" for each in range(int(count))]
        case ["wide", count, "lists", of]:
            begin = LINKS * int("".join(str(_SYLLABLES.index(each)) for each in of.split("-")))
            links = [f"/wide/{count}/pages/{name(begin + each)}" for each in range(LINKS)]
        case ["wide", _, "pages", _]:
            links = []
        case _:
            return None
    body = "".join(f'<a href="{link}">{link}</a>\n' for link in links)
    return _answer(b"200 OK", b"text/html", f"<html><body><h1>{path}</h1>{body}</body></html>".encode())


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
                path = head.split(b" ", 2)[1].decode()
                writer.write(known.get(path) or wide(path) or missing)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(answers(Path(sys.argv[1]), int(sys.argv[2]))))
