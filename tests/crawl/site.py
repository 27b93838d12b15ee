"""A generated site with what the web has, and what of it can be reached."""

import asyncio
import threading
from collections import Counter
from zlib import crc32

Answer = tuple[int, dict[str, str], bytes]


class Tree:
    """A tree of pages with what the web has: broken, slow, disallowed, endless, busy, elsewhere and in circles."""

    busy_seconds = 0
    """What one that is busy asks for."""

    def __init__(self, pages: int) -> None:
        self.pages, self.numbers = pages, {self.name(number): number for number in range(1, pages)}
        self.asked: Counter[str] = Counter()
        self.changed: dict[str, bytes] = {}
        """By path what is answered now."""
        self.away: set[str] = set()
        """What is not there when it is first asked for."""

    @staticmethod
    def conditional(head: str, status: int, headers: dict[str, str], body: bytes) -> Answer:
        """A third of the pages has an ETag, a third a date, as which here one will do; a third has neither."""
        if status != 200 or "html" not in headers["Content-Type"] or (kind := crc32(body) % 3) == 2:
            return status, headers, body
        name, asked = (("ETag", "If-None-Match"), ("Last-Modified", "If-Modified-Since"))[kind]
        headers = {**headers, name: f'"{crc32(body):x}"'}
        return (304, headers, b"") if f"{asked}: {headers[name]}\r\n" in head else (200, headers, body)

    def answer(self, path: str) -> Answer:
        html = {"Content-Type": "text/html; charset=utf-8"}
        if path in self.away and self.asked[path] < 2:
            return 503, html, b"Later."
        if path in self.changed:
            return 200, html, self.changed[path]
        if path == "/robots.txt":
            return 200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /private\n"
        if path.startswith("/r/"):
            return 302, {"Location": f"/r/{int(path[3:]) + 1}"}, b""
        if path == "/round":
            return 301, {"Location": "/round"}, b""
        if path == "/busy" and self.asked[path] < 2:
            return 429, {"Retry-After": str(self.busy_seconds)}, b""
        if path == "/image":
            return 200, {"Content-Type": "image/png"}, b"\x89PNG"
        if path.startswith("/broken"):
            return 404, html, b"gone"
        if path.startswith("/calendar"):
            day = int(path.partition("=")[2] or 0)
            return 200, html, b"<html>" + self.links([f"/calendar?day={day + 1}", f"/calendar?day={day + 7}"])
        return 200, html, b"<html><main><p>" + f"This is {path}. ".encode() * 9 + self.links(self.below(path))

    def below(self, path: str) -> list[str]:
        number = self.numbers.get(path, 0)
        found = [self.name(each) for each in range(3 * number + 1, 3 * number + 4) if each < self.pages]
        if path == "/":
            found += [
                "/private/a",
                "/r/0",
                "/round",
                "/busy",
                "/image",
                "/calendar",
                "javascript:x()",
                "file:///etc/passwd",
            ]
            found += ["http://10.0.0.1/", "http://elsewhere.invalid/", "/#here", "/page-aab?sid=9"]
        return found

    @staticmethod
    def name(number: int) -> str:
        """Without digits, in which pages of a trap differ."""
        kind = "broken" if number % 33 == 5 else "slow" if number % 33 == 7 else "page"
        letters = "".join(chr(97 + number // 26**place % 26) for place in (2, 1, 0))
        return f"/{kind}-{letters}"

    @staticmethod
    def links(paths: list[str]) -> bytes:
        return "".join(f"<a href='{path}'>{path}</a>" for path in paths).encode()


class Site(Tree):
    """The tree behind a server of this machine."""

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.sent = 0
        """Bytes of bodies."""
        self.silent: set[str] = set()
        """What is asked for in vain."""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0))
        self.root = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def think(self, path: str) -> None:
        """What passes before it answers."""
        if path.startswith("/slow"):
            await asyncio.sleep(0.02)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                self.asked[path] += 1
                if path in self.silent:
                    await reader.read()
                await self.think(path)
                status, headers, body = self.conditional(head.decode(), *self.answer(path))
                self.sent += len(body)
                lines = [f"HTTP/1.1 {status} x", *(f"{key}: {value}" for key, value in headers.items())]
                lines.append(f"Content-Length: {len(body)}")
                writer.write("\r\n".join([*lines, "", ""]).encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def reachable(pages: int) -> set[str]:
    """The paths of a tree of so many pages, by its definition: below a broken one there is nothing."""
    found, waiting = set(), [0]
    while waiting:
        number = waiting.pop()
        path = Site.name(number) if number else "/"
        found.add(path)
        if not path.startswith("/broken"):
            waiting += [each for each in range(3 * number + 1, 3 * number + 4) if each < pages]
    return found
