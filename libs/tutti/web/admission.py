"""Admission of connections of browsers: how many there are, and how long one may keep the server waiting.

Promises: a connection whose request is not whole (its head, or its body), or whose client reads nothing of an answer,
ends after a deadline, and the oldest of these ends when there are too many connections or too many bytes of bodies are
held; a request that is whole is never cut while its answer is made and read.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tutti.chassis.rpc.descriptors import most_connections

WHOLE_SECONDS = 30.0
LOOK_SECONDS = 1.0
MOST_BODIES = 32 << 20
"""Bytes of bodies that are not whole."""


class Admission:
    """The connections of one server; for the thread of its event loop."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most or most_connections() // 2
        self._waiting: dict[BoundedProtocol, float] = {}
        """Those whose request is not whole or whose answer is not read, the oldest first, with the time since when."""
        self._all: set[BoundedProtocol] = set()
        self._bytes: dict[BoundedProtocol, int] = {}
        self._held = 0
        self._looking = False

    def enter(self, connection: "BoundedProtocol") -> None:
        self._all.add(connection)
        self.wait(connection)
        while len(self._all) > self._most:
            self._drop(next(iter(self._waiting)))
        if not self._looking:
            self._looking = True
            connection.loop.call_later(LOOK_SECONDS, self._look, connection.loop)

    def leave(self, connection: "BoundedProtocol") -> None:
        self._all.discard(connection)
        self.whole(connection)

    def wait(self, connection: "BoundedProtocol") -> None:
        """A request is expected, or began and is not whole; or an answer is not read."""
        if connection in self._all and connection not in self._waiting:
            self._waiting[connection] = connection.loop.time()

    def begin(self, connection: "BoundedProtocol") -> None:
        """The first byte of a request came: it has all of the time."""
        if self._waiting.pop(connection, None) is not None:
            self._waiting[connection] = connection.loop.time()

    def whole(self, connection: "BoundedProtocol") -> None:
        self._waiting.pop(connection, None)
        self._held -= self._bytes.pop(connection, 0)

    def held(self, connection: "BoundedProtocol", size: int) -> None:
        """So many more bytes came of a body that is not whole."""
        if connection not in self._waiting:
            return
        self._bytes[connection] = self._bytes.get(connection, 0) + size
        self._held += size
        while self._held > MOST_BODIES:
            self._drop(next(each for each in self._waiting if each in self._bytes))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - WHOLE_SECONDS
        while self._waiting and next(iter(self._waiting.values())) <= late:
            self._drop(next(iter(self._waiting)))
        self._looking = bool(self._all)
        if self._looking:
            loop.call_later(LOOK_SECONDS, self._look, loop)

    def _drop(self, connection: "BoundedProtocol") -> None:
        self.leave(connection)
        connection.transport.abort()


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 within the limits of an admission; made by `protocol`."""

    admission: Admission
    between = True
    """Nothing of the next request came."""
    unread = False
    """More was written than the client has read and the system holds."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.admission.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.between and not self.unread:
            self.between = False
            self.admission.begin(self)
        super().data_received(data)
        self._told()
        self.admission.held(self, len(data))

    def on_response_complete(self) -> None:
        self.between = True
        super().on_response_complete()
        self._told()

    def pause_writing(self) -> None:
        self.unread = True
        super().pause_writing()
        self._told()

    def resume_writing(self) -> None:
        self.unread = False
        super().resume_writing()
        self._told()

    def _told(self) -> None:
        cycle: Any = self.cycle
        if self.unread or cycle is None or cycle.response_complete or cycle.more_body:
            self.admission.wait(self)
        else:
            self.admission.whole(self)


def protocol() -> type[BoundedProtocol]:
    """Return the protocol of one server."""
    return type("Bounded", (BoundedProtocol,), {"admission": Admission()})
