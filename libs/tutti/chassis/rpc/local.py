"""A channel for the generated stubs that ends in a function of this process, without a server or a socket."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from google.protobuf.message import Message

from tutti.chassis.errors import PermissionDenied, Unimplemented
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import Method, find_method

if TYPE_CHECKING:  # generic for the checker alone
    _Unary = grpc.UnaryUnaryMultiCallable[Any, Any]
    _Streaming = grpc.UnaryStreamMultiCallable[Any, Any]
else:
    _Unary = grpc.UnaryUnaryMultiCallable
    _Streaming = grpc.UnaryStreamMultiCallable

DEADLINE = 10.0


class LocalChannel(grpc.Channel):
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

    def stream_unary(self, method: str, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{method} streams its requests: no service of ours does")

    def stream_stream(self, method: str, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{method} streams its requests: no service of ours does")

    def subscribe(self, callback: Callable[..., Any], try_to_connect: bool | None = False) -> NoReturn:
        raise NotImplementedError("a local channel has no state: a call that fails says so")

    def unsubscribe(self, callback: Callable[..., Any]) -> NoReturn:
        raise NotImplementedError("a local channel has no state: a call that fails says so")

    def close(self) -> None:
        return None

    def __enter__(self) -> "LocalChannel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalCall(_Unary):
    def __init__(self, send: Callable[[Message, float], Any]) -> None:
        self._send = send

    def __call__(self, request: Message, timeout: float | None = None, *_: Any, **__: Any) -> Any:
        return self._send(request, timeout or DEADLINE)

    def with_call(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("call the method itself")

    def future(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("call the method itself")


class LocalStream(_Streaming):
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
