"""Listening for gRPC: the options of every server, and its port.

Promises: two servers never share a port in silence; neither a message, nor the calls of one connection, nor connections
are without a limit; a server whose calls can be read on the network says so.
"""

import logging

import grpc

from tutti.chassis.config.datadir import LOOPBACK
from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.rpc.descriptors import most_connections
from tutti.chassis.rpc.tls import Tls

log = logging.getLogger(__name__)
MOST_STREAMS = 512
"""Calls at once on one connection; watches are calls."""
HANDSHAKE_MS = 5000


def server_options(settings: RpcSettings) -> list[tuple[str, int]]:
    """The options of every gRPC server."""
    return [
        ("grpc.so_reuseport", 0),  # or two servers would share a port in silence
        # Twice the limit reaches us, so that a request that is a little too large is refused in our words; gRPC refuses
        # a larger one before it is in memory.
        ("grpc.max_receive_message_length", 2 * settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.max_concurrent_streams", MOST_STREAMS),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    ]


def listening(server: grpc.aio.Server, listen: str, tls: Tls | None) -> int:
    """Let a server listen at an address, with TLS where it has a certificate; the port. Raises RuntimeError."""
    if tls is not None and tls.serves:
        return int(server.add_secure_port(listen, tls.server()))
    if listen.rpartition(":")[0].strip("[]") not in LOOPBACK:
        log.warning(
            "rpc.listen is %s, which other machines may reach, and calls are not encrypted: tokens can be read. "
            "Set tls.certificate, tls.key and tls.ca, or listen at 127.0.0.1, unless the network is private",
            listen,
        )
    return int(server.add_insecure_port(listen))
