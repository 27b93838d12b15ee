"""A channel for the generated stubs that ends in a function of this process, without a server or a socket."""

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message

from tutti.chassis.errors import PermissionDenied, Unimplemented
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.calls import PlainCall, PlainChannel, Streaming
from tutti.chassis.rpc.methods import Method, find_method

DEADLINE = 10.0


class LocalChannel(PlainChannel):
    """`call(path, request, seconds)` answers a method, `stream(path, request)` one that streams."""

    def __init__(self, call: Callable[[str, Message, float], Any], stream: Callable[[str, Any], Iterator[Any]]) -> None:
        self._call, self._stream = call, stream

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> "LocalCall":
        return LocalCall(lambda request, seconds: self._call(method, request, seconds))

    def unary_stream(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        _registered_method: bool | None = False,
    ) -> "LocalStream":
        return LocalStream(lambda request: self._stream(method, request))

    def close(self) -> None:
        return None


class LocalCall(PlainCall):
    def __init__(self, send: Callable[[Message, float], Any]) -> None:
        self._send = send

    def __call__(self, request: Message, timeout: float | None = None, *_: Any, **__: Any) -> Any:
        return self._send(request, timeout or DEADLINE)


class LocalStream(Streaming):
    def __init__(self, send: Callable[[Message], Iterator[Any]]) -> None:
        self._send = send

    def __call__(self, request: Message, timeout: float | None = None, *_: Any, **__: Any) -> Any:
        return self._send(request)


def method_of(path: str, role: Role) -> Method:
    """Return the method that a role may call. Raises Unimplemented, PermissionDenied."""
    method = find_method(path)
    if method is None:
        raise Unimplemented(f"nobody serves {path}")
    if role not in method.roles:
        raise PermissionDenied(f"{path} is not for the role {role.value}")
    return method
