"""The socket of the server of pages."""

import socket

from tutti.web.front import listening


def test_a_connection_sends_small_parts_at_once() -> None:
    with listening("127.0.0.1:0") as server, socket.create_connection(server.getsockname()):
        accepted, _ = server.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
