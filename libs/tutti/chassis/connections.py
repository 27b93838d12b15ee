"""gRPC channels. `make lint` refuses other ways to open one.

Promises: a channel ignores the variables of HTTP proxies (`http_proxy`, `https_proxy`, `grpc_proxy`), which would lead
calls on loopback or between containers to a proxy that cannot reach them; it uses a proxy only if it is given one.
"""

from collections.abc import Iterable

import grpc

Option = tuple[str, int | str]
MAX_ANSWER_BYTES = 64 << 20
DIRECT: tuple[Option, ...] = (("grpc.enable_http_proxy", 0),)
_OPTIONS: tuple[Option, ...] = (
    ("grpc.enable_retries", 0),  # ours knows which methods may be sent again
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),  # a watch notices a host that is gone
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.dns_min_time_between_resolutions_ms", 1000),  # a service that came back may have another address
)


def connection(
    address: str, credentials: grpc.ChannelCredentials | None = None, *, certified: str = "", proxy: str = ""
) -> grpc.Channel:
    """A channel; with `credentials` over TLS, to a server whose certificate has the name `certified` if it is given.

    `proxy`: the URL of an HTTP proxy that connects to the address.
    """
    options = _options(certified, proxy)
    if credentials is None:
        return grpc.insecure_channel(address, options)  # noqa: TID251
    return grpc.secure_channel(address, credentials, options)  # noqa: TID251


def connection_of_loop(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
    """The same for the event loop that runs."""
    options = _options()
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)  # noqa: TID251
    return grpc.aio.secure_channel(address, credentials, options)  # noqa: TID251


def _options(certified: str = "", proxy: str = "") -> list[Option]:
    more: Iterable[Option] = [("grpc.ssl_target_name_override", certified)] if certified else []
    return [*_OPTIONS, *more, *([("grpc.http_proxy", proxy)] if proxy else DIRECT)]
