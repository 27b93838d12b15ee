"""The connections of a process to its servers, as descriptors: how many there are, and which give way.

Promises: servers never take more than half of the descriptors of a process; a connection on which nobody showed a
credential gives way to a newer one, the oldest first. Freed memory goes back to the system every few seconds.
"""

import contextlib
import ctypes
import os
import resource
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from urllib.parse import quote

LOOK_SECONDS = 0.25
TRIM_EVERY = 20
"""Looks between two times at which memory is given back, which takes about 0.2 ms."""
KNOWN_PEERS = 10_000
MOST_CONNECTIONS = 1_000


class Connections:
    """The connections of the servers of a process at `ports`; those that showed no credential give way.

    gRPC for Python limits their number, but then refuses whoever comes next: so the oldest are closed here, by their
    descriptors.
    """

    def __init__(self, most: int) -> None:
        self._most, self._ports = most, set[int]()
        self._credited: OrderedDict[str, None] = OrderedDict()
        self._seen: dict[str, float] = {}
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="rpc connections", daemon=True)

    def watch(self, port: int) -> None:
        """Begin, with the port at which the server listens; systems without /proc are not watched."""
        self._ports.add(port)
        if os.path.isdir("/proc/self/fd"):
            self._thread.start()

    def credit(self, peer: str) -> None:
        """A call with a credential came over the connection of this peer, as gRPC names it."""
        with self._lock:
            self._credited[peer] = None
            self._credited.move_to_end(peer)
            if len(self._credited) > KNOWN_PEERS:
                self._credited.popitem(last=False)

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        spare, looks = _spare(), 0
        while not self._stop.wait(LOOK_SECONDS):
            os.close(spare)  # so that there is a descriptor to look with
            with contextlib.suppress(OSError):
                descriptors = _descriptors()
                if len(descriptors) > self._most // 2:
                    self.shed(descriptors)
                else:
                    self._seen.clear()
            spare = _spare()
            looks += 1
            if looks % TRIM_EVERY == 0:
                give_back()
        os.close(spare)

    def shed(self, descriptors: Iterable[int]) -> None:
        """Close the oldest connections without a credential, all but a quarter of what may be."""
        now = time.monotonic()
        found = {peer: each for each in descriptors if (peer := self._peer(each))}
        with self._lock:
            anonymous = [peer for peer in found if peer not in self._credited]
        self._seen = {peer: self._seen.get(peer, now) for peer in anonymous}
        anonymous.sort(key=lambda peer: self._seen[peer])
        for peer in anonymous[: max(0, len(anonymous) - self._most // 4)]:
            with contextlib.suppress(OSError):
                own = os.dup(found[peer])
                if self._peer(own) != peer:  # it was closed, and its number is another's now
                    os.close(own)
                    continue
                with socket.socket(fileno=own) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    def _peer(self, descriptor: int) -> str:
        """The peer of a connection to one of the ports, as gRPC names it; "" for anything else."""
        try:
            connection = socket.socket(fileno=descriptor)
        except OSError:
            return ""
        try:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                return ""
            if connection.getsockname()[1] not in self._ports:
                return ""
            return peer_name(*connection.getpeername()[:2])
        except OSError:  # it only listens, or is gone
            return ""
        finally:
            connection.detach()


def _spare() -> int:
    """Return a descriptor that can be given up; waits for one."""
    while True:
        try:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            time.sleep(LOOK_SECONDS)


def _descriptors() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


def peer_name(host: str, port: int) -> str:
    """Return how gRPC names a peer."""
    mapped = host.removeprefix("::ffff:")
    return f"ipv6:{quote(f'[{host}]')}:{port}" if ":" in mapped else f"ipv4:{mapped}:{port}"


def most_connections() -> int:
    """Return how many connections a server of this process may have: an eighth of the descriptors."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(MOST_CONNECTIONS, most // 8) if most != resource.RLIM_INFINITY else MOST_CONNECTIONS


def give_back() -> None:
    """Return to the system what was freed, such as that of connections that are gone; else the heap keeps its holes,
    and grows with the work that was done. Where libc is not glibc, it does so when it likes.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
