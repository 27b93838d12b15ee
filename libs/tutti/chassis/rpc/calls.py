"""Base classes of channels and calls: what no stub of ours uses is refused in one place."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

import grpc

if TYPE_CHECKING:  # generic for the checker alone
    Unary = grpc.UnaryUnaryMultiCallable[Any, Any]
    Streaming = grpc.UnaryStreamMultiCallable[Any, Any]
else:
    Unary = grpc.UnaryUnaryMultiCallable
    Streaming = grpc.UnaryStreamMultiCallable


class PlainChannel(grpc.Channel):
    """A channel for single requests, whose state nobody watches; used in a `with` statement, it is closed."""

    def copies(self) -> Mapping[str, grpc.Channel]:
        """A channel to each copy of the service alone, by its address. Raises Unreachable."""
        return {"": self}

    def stream_unary(self, method: str, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{method} streams its requests: no service of ours does")

    def stream_stream(self, method: str, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"{method} streams its requests: no service of ours does")

    def subscribe(self, callback: Callable[..., Any], try_to_connect: bool | None = False) -> NoReturn:
        raise NotImplementedError("the connection is not watched: a call that fails says so")

    def unsubscribe(self, callback: Callable[..., Any]) -> NoReturn:
        raise NotImplementedError("the connection is not watched: a call that fails says so")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PlainCall(Unary):
    """A method that is only called."""

    def with_call(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("call the method itself")

    def future(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("call the method itself")
