"""The ports of the pages, and the sockets that accept there."""

import contextlib
import socket
from collections.abc import Iterator, Sequence

import pytest

from tutti.chassis.rpc.server import CannotListen
from tutti.web.ports import END, FIRST, MOST, Listening, listen

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def listening(kept: Sequence[int] = (), port: int = 0) -> Iterator[Listening]:
    found = listen(f"{LOOPBACK}:{port}", kept)
    try:
        yield found
    finally:
        found.close()


def accepting(found: Listening) -> list[int]:
    return [each.getsockname()[1] for each in found.sockets]


def test_a_connection_sends_small_parts_at_once() -> None:
    with listening() as found, socket.create_connection(found.sockets[0].getsockname()):
        accepted, _ = found.sockets[0].accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_is_chosen_once_and_then_kept() -> None:
    with listening() as first:
        (port,) = first.ports
    assert FIRST <= port < END  # no outgoing connection takes it while the platform is down
    with listening(first.ports) as again:
        assert (accepting(again), again.lost, again.ports) == ([port], [], [port])


def test_another_port_is_chosen_and_kept_where_another_program_has_the_old_one() -> None:
    with listening() as another:
        (taken,) = another.ports
        with listening([taken]) as moved:
            (chosen,) = accepting(moved)
            assert (moved.lost, moved.ports) == ([taken], [chosen, taken])
        with listening(moved.ports) as still:
            assert (accepting(still), still.lost) == ([chosen], [taken])


def test_a_port_that_is_free_again_is_served_beside_the_newest() -> None:
    with listening() as first, listening() as second:
        ports = [*second.ports, *first.ports]
    with listening(ports) as found:
        assert (accepting(found), found.lost, found.ports) == (ports, [], ports)


def test_only_so_many_ports_are_remembered() -> None:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(listening()).ports[0] for _ in range(MOST)]
        moved = stack.enter_context(listening(taken))
        assert moved.ports == [*accepting(moved), *taken[:-1]]


def test_a_port_that_is_asked_for_is_the_only_one() -> None:
    with listening() as first, listening() as second:
        (kept,), (wanted,) = first.ports, second.ports
    with listening([kept], wanted) as found:
        assert (accepting(found), found.lost, found.ports) == ([wanted], [kept], [wanted])
        with pytest.raises(CannotListen, match=rf"{LOOPBACK}:{wanted}"):
            listen(f"{LOOPBACK}:{wanted}", [])
