"""The client's half of a call: a channel for the generated stubs.

Promises: every call carries a token and a deadline; it is sent again, with jitter, only where its method says that it
may be; what it raises is a Problem; an address that changed (a host that restarted) is looked up anew.
"""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from tutti.backbone.backoff import Backoff
from tutti.chassis.connections import connection
from tutti.chassis.errors import DeadlineExceeded, Problem, TooLarge, Unavailable, from_status
from tutti.chassis.identity.auth import AUTHORIZATION, SCHEME
from tutti.chassis.identity.cause import current_cause
from tutti.chassis.identity.principal import ON_BEHALF_OF, delegation
from tutti.chassis.rpc.addresses import FORWARDED, signed
from tutti.chassis.rpc.calls import PlainCall, PlainChannel, Streaming
from tutti.chassis.rpc.methods import find_method
from tutti.chassis.rpc.tls import Stamp, Tls, explained
from tutti.chassis.spans import TRACEPARENT, calling, current_traceparent

BACKOFF = Backoff(0.1, 2.0)
SHORTEST_SECONDS = 0.1  # in which another attempt may still be answered


class Unreachable(Unavailable):
    """Nobody answers at the address, or there is none."""

    default_reason = "UNREACHABLE"


class Untrusted(Unavailable):
    """Somebody answers at the address, and one side does not accept the other's certificate."""

    default_reason = "UNTRUSTED"


class RpcChannel(PlainChannel):
    """`address` is asked before every attempt and raises Unreachable when there is none. Safe for any thread.

    It may have several, with commas, of replicas of one service: the channel keeps to one, and takes the next when that
    one does not answer.
    """

    def __init__(
        self,
        address: Callable[[], str],
        *,
        token: str,
        deadline_seconds: float = 10.0,
        attempts: int = 5,
        max_message_bytes: int = 4 << 20,
        tls: Tls | None = None,
        certified: str = "",
        door_secret: str = "",
        proxy: str = "",
    ) -> None:
        """`certified` is the name that the server's certificate must have, if it is not that of the address. `proxy` is
        the URL of an HTTP proxy that connects to the address.

        With `door_secret`, a call that is made while another one is answered names the address of that one.
        """
        self._address, self._token, self.tls, self._certified = address, token, tls, certified
        self._door_secret, self._proxy = door_secret, proxy
        self._metadata = ((AUTHORIZATION, SCHEME + token),)
        self.deadline_seconds = deadline_seconds
        self.attempts = attempts
        self.max_message_bytes = max_message_bytes
        self._lock = threading.Lock()
        self._open: dict[str, grpc.Channel] = {}
        self._turn = random.randrange(1 << 16)
        self.replicas = 1
        """The number of addresses at the last attempt."""
        self._stamp: Stamp = ()
        self._closed = False
        self._copies: dict[str, RpcChannel] = {}

    def copies(self) -> Mapping[str, "RpcChannel"]:
        """A channel to each replica alone, by address; a host name that several machines have is an address for each.

        Raises Unreachable.
        """
        places = {place: host for address in self._address().split(",") for place, host in _places(address)}
        with self._lock:
            for gone in self._copies.keys() - places.keys():
                self._copies.pop(gone).close()
            for place in places.keys() - self._copies.keys():
                self._copies[place] = self._copy(place, places[place])
            return dict(self._copies)

    def _copy(self, place: str, host: str) -> "RpcChannel":
        return RpcChannel(
            lambda: place,
            token=self._token,
            deadline_seconds=self.deadline_seconds,
            attempts=self.attempts,
            max_message_bytes=self.max_message_bytes,
            tls=self.tls,
            certified=host,
            door_secret=self._door_secret,
            proxy=self._proxy,
        )

    def connected(self) -> tuple[str, grpc.Channel]:
        """The address as it is now, and a channel to it."""
        addresses, stamp = self._address().split(","), self.tls.stamp if self.tls else ()
        with self._lock:
            if self._closed:
                raise Unavailable("the channel is closed: this process stops")
            for gone in [each for each in self._open if each not in addresses or self._stamp != stamp]:
                self._open.pop(gone).close()
            self._stamp, self.replicas = stamp, len(addresses)
            address = addresses[self._turn % len(addresses)]
            if address not in self._open:
                self._open[address] = self._made(address)
            return address, self._open[address]

    def avoid(self, address: str) -> None:
        """It did not answer: the next call goes to another replica, where there is one."""
        with self._lock:
            if address in self._open:
                self._turn += 1

    def _made(self, address: str) -> grpc.Channel:
        credentials = self.tls.channel() if self.tls else None
        return connection(address, credentials, certified=self._certified, proxy=self._proxy)

    def problem(self, error: grpc.RpcError, address: str, path: str) -> Problem:
        """The problem in an error of a call to this address, which is avoided if it did not answer."""
        found = problem_of(error, address, path, self.tls)
        if isinstance(found, Unavailable | DeadlineExceeded):
            self.avoid(address)
        return found

    def metadata(self) -> tuple[tuple[str, str], ...]:
        cause = current_cause()
        address = signed(cause.address, self._door_secret) if cause.address and self._door_secret else ""
        more = ((TRACEPARENT, current_traceparent()), (ON_BEHALF_OF, delegation(cause.principal)), (FORWARDED, address))
        return (*self._metadata, *((name, value) for name, value in more if value))

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> "UnaryCall":
        return UnaryCall(self, method, response_deserializer)

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> "StreamCall":
        return StreamCall(self, method, response_deserializer)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for each in (*self._open.values(), *self._copies.values()):
                each.close()
            self._open.clear()
            self._copies.clear()


class UnaryCall(PlainCall):
    def __init__(self, channel: RpcChannel, path: str, deserialize: Callable[[bytes], Any] | None) -> None:
        self._channel, self._path, self._deserialize = channel, path, deserialize

    def __call__(self, request: Message, timeout: float | None = None, *_: Any, **__: Any) -> Any:
        """Raises Problem."""
        method = find_method(self._path)
        attempts = self._channel.attempts if method is not None and method.retry else 1
        data = checked(request, self._path, self._channel.max_message_bytes)
        deadline = time.monotonic() + (self._channel.deadline_seconds if timeout is None else timeout)
        with calling(self._path[1:]):
            for attempt in range(1, attempts + 1):
                left = max(deadline - time.monotonic(), 0.001)
                again = attempt < attempts and method is not None and not method.long
                try:
                    return self._once(data, left, again=again)
                except DeadlineExceeded:
                    if not again or deadline - time.monotonic() < SHORTEST_SECONDS:
                        raise
                except Untrusted:
                    raise
                except Unavailable:
                    wait = BACKOFF.drawn(attempt)
                    if attempt == attempts or time.monotonic() + wait + SHORTEST_SECONDS > deadline:
                        raise  # another attempt could say that time is up, but not who is away
                    time.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _once(self, data: bytes, seconds: float, *, again: bool) -> Any:
        address, inner = self._channel.connected()
        if again and self._channel.replicas > 1:
            seconds /= 2  # one that hangs leaves time for another
        try:
            send: Any = inner.unary_unary(self._path, None, self._deserialize)
            return send(data, timeout=seconds, metadata=self._channel.metadata())
        except grpc.RpcError as error:
            raise self._channel.problem(error, address, self._path) from None
        except ValueError as error:  # another thread closed the channel because the address changed
            raise Unavailable(f"the connection to {address} was closed: {error}") from None


class StreamCall(Streaming):
    def __init__(self, channel: RpcChannel, path: str, deserialize: Callable[[bytes], Any] | None) -> None:
        self._channel, self._path, self._deserialize = channel, path, deserialize

    def __call__(self, request: Message, timeout: float | None = None, *_: Any, **__: Any) -> Any:
        """An iterator of answers with `cancel()`; without a deadline unless one is given. Iterating raises Problem."""
        data = checked(request, self._path, self._channel.max_message_bytes)
        address, inner = self._channel.connected()
        try:
            send: Any = inner.unary_stream(self._path, None, self._deserialize)
            call = send(data, timeout=timeout, metadata=self._channel.metadata())
        except ValueError as error:
            raise Unavailable(f"the connection to {address} was closed: {error}") from None
        return Stream(call, address, self._path, self._channel)


class Stream(Iterator[Any]):
    def __init__(self, call: Any, address: str, path: str, channel: RpcChannel) -> None:
        self._call, self._address, self._path, self._channel = call, address, path, channel

    def __next__(self) -> Any:
        try:
            return next(self._call)
        except grpc.RpcError as error:
            raise self._channel.problem(error, self._address, self._path) from None

    def cancel(self) -> None:
        self._call.cancel()


def _places(address: str) -> list[tuple[str, str]]:
    """Each machine of an address as IP:port, with the name that they share; an address of one machine as it is."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return [(address, "")]
    machines = sorted({str(each[4][0]) for each in found})
    return [(f"{ip}:{port}", host) for ip in machines] if len(machines) > 1 else [(address, "")]


def checked(request: Message, path: str, limit: int) -> bytes:
    """The request's bytes. Raises TooLarge."""
    data = request.SerializeToString()
    if len(data) > limit:
        name = path.rpartition("/")[2]
        raise TooLarge(f"the request of {name} has {len(data)} bytes, at most {limit} are accepted: send data by blob")
    return data


def problem_of(error: grpc.RpcError, address: str, path: str, tls: Tls | None = None) -> Problem:
    """The problem in a gRPC error, whoever made it: the service, the server in front of it, or the wire."""
    assert isinstance(error, grpc.Call)
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is not None:
        return from_status(status)
    code, details = error.code(), error.details() or ""
    name = path.rpartition("/")[2]
    if code is grpc.StatusCode.UNAVAILABLE:
        if reason := explained(address, tls, details):
            return Untrusted(reason)
        return Unreachable(
            f"no answer from {address} ({details}): start the platform with `tutti up --detach`, or give another "
            f"address"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        method = find_method(path)
        advice = method.unanswered if method else "its effect is unknown"
        details = f"{name} had no answer from {address} in time; {advice}"
    elif code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        details = f"{name}: {details}; send data by blob"
    elif code is grpc.StatusCode.UNIMPLEMENTED:
        details = f"nobody serves {path} at {address}: is that service running there?"
    return from_status(Status(code=code.value[0], message=details))
