"""A bad network between a client and a server: slow, narrow, or cut in one or both directions; and a dead address.

Promises: nothing is lost that TCP does not lose: what is sent while a direction is cut arrives in order once it is
restored, as after retransmissions, and so does the end of a connection.
"""

import asyncio
import math
import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from enum import Enum
from urllib.parse import urlsplit

from tests.lacking import lacking

PIECE = 1 << 16
PIECES = 64
"""Read ahead of a direction; more waits in the sockets, and then the sender does."""
MOST_WAITING = 16


class Way(Enum):
    """A direction."""

    THERE = "from the client to the server"
    BACK = "from the server to the client"


BOTH = frozenset(Way)


class Network:
    """A proxy for the server of a URL; `url` leads through it. Every part of it may be changed at any time.

    `delay_seconds` is added in each direction; `bytes_per_second` limits each direction of each connection.
    A Kafka broker tells its clients its own address: in its answers it is replaced by that of the proxy.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self._port, self._is_kafka = parts.port, parts.scheme == "kafka"
        self.delay_seconds, self.bytes_per_second = 0.0, math.inf
        self._loop = asyncio.new_event_loop()
        self._passes = {way: asyncio.Event() for way in Way}
        for event in self._passes.values():
            event.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.url = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{self.address}").geturl()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        serving = asyncio.start_server(self._serve, sock=self._listener)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    @contextmanager
    def cut(self, ways: Collection[Way] = BOTH) -> Iterator[None]:
        """Let nothing pass in these directions."""
        self._let(ways, passing=False)
        try:
            yield
        finally:
            self._let(ways, passing=True)

    @contextmanager
    def slow(self, round_trip_seconds: float, bytes_per_second: float = math.inf) -> Iterator[None]:
        """Let each exchange take so much longer."""
        self.delay_seconds, self.bytes_per_second = round_trip_seconds / 2, bytes_per_second
        try:
            yield
        finally:
            self.delay_seconds, self.bytes_per_second = 0.0, math.inf

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _let(self, ways: Collection[Way], *, passing: bool) -> None:
        async def switch() -> None:
            for way in ways:
                if passing:
                    self._passes[way].set()
                else:
                    self._passes[way].clear()

        asyncio.run_coroutine_threadsafe(switch(), self._loop).result(10)

    async def _end(self) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
            writers.append(requests)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(Way.THERE, reader, requests))
                both.create_task(self._carry(Way.BACK, answers, writer))
        except* OSError:
            pass  # the server refused the connection, or either side has broken it off
        finally:
            self._tasks.discard(task)
            for each in writers:
                each.close()

    async def _carry(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Raises OSError once either side has broken off."""
        sent: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(PIECES)

        async def read() -> None:
            try:
                while data := await self._next(way, reader):
                    await sent.put((self._loop.time(), data))
                await sent.put((self._loop.time(), b""))
            except OSError:
                await sent.put((self._loop.time(), None))

        reading = asyncio.ensure_future(read())
        try:
            while True:
                at, data = await sent.get()
                await asyncio.sleep(at + self.delay_seconds - self._loop.time())
                await asyncio.sleep(len(data or b"") / self.bytes_per_second)
                await self._passes[way].wait()
                if data is None:
                    raise ConnectionResetError
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
        finally:
            reading.cancel()

    async def _next(self, way: Way, reader: asyncio.StreamReader) -> bytes:
        """The next bytes of a direction, empty at its end; of a broker one whole answer, with our address for its."""
        if not self._is_kafka or way is Way.THERE:
            return await reader.read(PIECE)
        try:
            head = await reader.readexactly(4)
            answer = await reader.readexactly(int.from_bytes(head, "big"))
        except asyncio.IncompleteReadError:
            return b""
        ours = int(self.address.rpartition(":")[2])
        host = b"127.0.0.1"
        return head + answer.replace(host + self._port.to_bytes(4, "big"), host + ours.to_bytes(4, "big"))


PROXIES = {
    **{name: "http://127.0.0.1:1" for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")},
    **{name: "http://127.0.0.1:1" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY")},
    **{name: "" for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy")},
}
"""An environment with proxies that lead nowhere."""


@contextmanager
def dead_address() -> Iterator[str]:
    """An address of this machine whose packets are dropped: whoever connects to it gets no answer, not a refusal.

    The kernel drops the first packet of a connection to a server whose queue is full.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting: list[socket.socket] = []
        try:
            while len(waiting) < MOST_WAITING:
                caller = socket.socket()
                waiting.append(caller)
                caller.settimeout(0.2)
                try:
                    caller.connect(listener.getsockname())
                except TimeoutError:
                    break
            else:
                lacking("needs a kernel that drops connections to a server whose queue is full")
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for caller in waiting:
                caller.close()


def through(url: str, address: str) -> str:
    """The URL with another address."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{address}").geturl()
