"""The ports of the pages: chosen once and then kept, because tabs that are open know no other.

Promises: with port 0, a platform listens at the port of its last start, and at those of earlier starts that are free
again; if all are taken it chooses a new one, and names those that it lost. A port that is asked for by number is the
only one.
"""

import errno
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.rpc.server import CannotListen

FIRST, END = 20_000, 32_768
"""Systems take the source ports of connections from above this range. A server cannot listen at such a port while a
connection has it, nor for a minute after."""
MOST = 4
TRIES = 100


@dataclass(frozen=True)
class Listening:
    """`sockets` that accept, that of the URL first; `lost` ports of earlier starts; `ports` to keep."""

    sockets: Sequence[socket.socket]
    lost: Sequence[int]
    ports: Sequence[int]

    def close(self) -> None:
        for each in self.sockets:
            each.close()


def listen(address: str, kept: Sequence[int]) -> Listening:
    """Accept connections at HOST:PORT. `kept` are the ports of earlier starts, newest first. Raises CannotListen."""
    name, _, port = address.rpartition(":")
    name = name.strip("[]")
    try:
        if int(port):
            return Listening([_bound(name, int(port))], [each for each in kept if each != int(port)], [int(port)])
        found = {each: accepting for each in kept if (accepting := _free(name, each))}
        lost = [each for each in kept if each not in found]
        if not found:
            accepting = _chosen(name)
            found = {accepting.getsockname()[1]: accepting}
    except (OSError, ValueError, OverflowError) as error:
        raise CannotListen(
            f"cannot listen at {address} for pages: {error}; set web.listen to another address (port 0: any free one)"
        ) from None
    return Listening([*found.values()], lost, [*found, *lost][:MOST])


def _chosen(name: str) -> socket.socket:
    """A socket at a free port. Raises OSError."""
    for _ in range(TRIES):
        if found := _free(name, FIRST + secrets.randbelow(END - FIRST)):
            return found
    return _bound(name, 0)


def _free(name: str, port: int) -> socket.socket | None:
    """A socket at the port; None if another program has it. Raises OSError."""
    try:
        return _bound(name, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return None


def _bound(name: str, port: int) -> socket.socket:
    """A socket at the port; 0 for one that the system chooses. Raises OSError.

    Its connections send at once: asyncio sees to that only where the protocol of the socket was named, and otherwise
    the body of an answer waits 40 ms for the client to acknowledge the head.
    """
    found = socket.create_server((name, port), family=socket.AF_INET6 if ":" in name else socket.AF_INET, backlog=128)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
