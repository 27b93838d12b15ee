"""Connections of browsers: the oldest that has not said what it wants gives way."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any

import pytest
import uvicorn
from tests.faults.processes import until

from tutti.web import admission
from tutti.web.admission import Admission, protocol

WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
BEGUN = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"


async def application(scope: object, receive: Callable[[], Any], send: Callable[[object], Any]) -> None:
    """Answer once the body is whole."""
    while (message := await receive())["type"] == "http.request":
        if not message.get("more_body"):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})
            return


@contextmanager
def served(limits: Admission) -> Iterator[tuple[str, int]]:
    """The address of a server with these limits."""
    made = protocol()
    made.admission = limits
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # of what it accepts: soon full
        server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_config=None, http=made))
        thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        until(lambda: server.started, seconds=30, what="the server")
        yield listening.getsockname()
        server.should_exit = True
        thread.join(30)


def answered(connection: socket.socket) -> bool:
    """True for a whole answer."""
    seen = b""
    while not seen.endswith(b"\r\n\r\nok"):
        if not (piece := connection.recv(4096)):
            return False
        seen += piece
    return seen.startswith(b"HTTP/1.1 200")


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_of_too_many_connections_the_oldest_that_is_not_whole_ends() -> None:
    limits = Admission(3)
    with served(limits) as address, ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(3)]
        until(lambda: len(limits._all) == 3, seconds=30, what="the server to accept them in this order")
        made[0].sendall(WHOLE)
        assert answered(made[0])  # it waits for its next request now, the newest to wait
        another = stack.enter_context(socket.create_connection(address, 30))
        another.sendall(WHOLE)
        assert answered(another)
        assert ended(made[1])
        made[0].sendall(WHOLE)
        assert answered(made[0])


def leave_unread(connection: socket.socket, limits: Admission, count: int) -> None:
    """Ask again and again and read no answer, until so many connections have more answers than the system holds."""
    connection.setblocking(False)

    def stuck() -> bool:
        with suppress(BlockingIOError):
            connection.send(WHOLE * 1000)
        return sum(each.unread for each in list(limits._all)) == count

    until(stuck, seconds=60, what="answers that nobody reads")
    connection.setblocking(True)


def test_of_too_many_connections_one_that_reads_no_answer_ends() -> None:
    limits = Admission(2)
    with served(limits) as address, ExitStack() as stack:
        made = [stack.enter_context(small(address)) for _ in range(2)]
        for count, each in enumerate(made, 1):
            leave_unread(each, limits, count)
        another = stack.enter_context(socket.create_connection(address, 30))
        another.sendall(WHOLE)
        assert answered(another)


def test_an_answer_that_nobody_reads_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.1)
    limits = Admission(9)
    with served(limits) as address, small(address) as made:
        leave_unread(made, limits, 1)
        monkeypatch.setattr(admission, "WHOLE_SECONDS", 0.5)
        until(lambda: not limits._all, seconds=30, what="the end of the connection")


def small(address: tuple[str, int]) -> socket.socket:
    """A connection whose client has room for little that it does not read."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.settimeout(30)
    made.connect(address)
    return made


def test_of_too_many_bytes_of_bodies_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MOST_BODIES", 100_000)
    with served(Admission(9)) as address, ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(address, 30)) for _ in range(2)]
        for each in made:
            each.sendall(BEGUN + b"x" * 60_000)
        assert ended(made[0]) or ended(made[1])


def test_a_request_that_is_never_whole_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "WHOLE_SECONDS", 0.05)
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.05)
    with served(Admission(9)) as address, socket.create_connection(address, 30) as slow:
        slow.sendall(WHOLE[:-2])
        assert ended(slow)
