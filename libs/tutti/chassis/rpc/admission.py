"""Admission of calls: who may send a message at all, how many are received at once, and for how long.

Promises: no message is received from a caller whose credential was not checked; of those that are received at once
there are only so many; one that is not whole after a deadline ends, and the oldest that dawdles ends when another
waits. Of the streams of strangers (health, reflection) the oldest ends when there are too many.
"""

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any

import grpc

from tutti.chassis.errors import DeadlineExceeded, Problem, Unavailable

MESSAGE_SECONDS = 10.0
"""For a message to arrive once its caller was admitted."""
DAWDLE_SECONDS = 1.0
"""After which a message that is not whole gives way to another."""
MOST_MESSAGES = 16
"""Messages of callers other than services that are received at once; each has at most twice the limit of a message."""
MOST_OF_STRANGERS = 4
MOST_STREAMS = 64
"""Streams that are open at once and need no credential."""
WAIT_SECONDS = 0.05


class Receiving:
    """The messages that are being received; for one event loop."""

    def __init__(self, most: int = MOST_MESSAGES) -> None:
        self._most, self._since = most, dict[asyncio.Future[Any], float]()

    async def receive(self, requests: AsyncIterator[Any], what: str) -> Any:
        """Return the next message. Raises DeadlineExceeded, Unavailable for one that gave way, StopAsyncIteration."""
        deadline = time.monotonic() + MESSAGE_SECONDS
        await self._enter(deadline, what)
        reading: asyncio.Future[Any] = asyncio.ensure_future(anext(requests))
        self._since[reading] = time.monotonic()
        try:
            await asyncio.wait({reading}, timeout=max(0.0, deadline - time.monotonic()))
            if not reading.done():
                raise DeadlineExceeded(
                    f"the request of {what} was not whole after {MESSAGE_SECONDS:g} s: send it again"
                )
            if reading.cancelled():
                raise Unavailable(f"the request of {what} was not whole while others waited: send it again")
            return reading.result()
        finally:
            reading.cancel()
            self._since.pop(reading, None)

    async def _enter(self, deadline: float, what: str) -> None:
        while len(self._since) >= self._most:
            oldest, since = next(iter(self._since.items()))
            if time.monotonic() - since >= DAWDLE_SECONDS:
                del self._since[oldest]
                oldest.cancel()
                return
            if time.monotonic() >= deadline:
                raise Unavailable(f"too many requests are being received: send that of {what} again")
            await asyncio.sleep(WAIT_SECONDS)


class Streams:
    """The streams that are open without a credential; for one event loop."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most, self._open = most, dict[asyncio.Future[None], None]()

    async def run(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Await what a stream does. Raises Unavailable if it gives way to another."""
        while len(self._open) >= self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        doing = asyncio.ensure_future(work)
        self._open[doing] = None
        try:
            await asyncio.wait({doing})
            if doing.cancelled():
                raise Unavailable(f"{what} ended because others are open: at most {self._most}; call again")
            doing.result()
        finally:
            doing.cancel()
            self._open.pop(doing, None)


class Patient(grpc.aio.ServerInterceptor):
    """Receives the messages of services that need no credential, such as health, within limits of their own."""

    def __init__(self, ours: Iterable[str]) -> None:
        """`ours` are the full names of services whose handlers receive within limits themselves."""
        self._ours, self._receiving, self._streams = frozenset(ours), Receiving(MOST_OF_STRANGERS), Streams()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["grpc.RpcMethodHandler[Any, Any] | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        found: Any = await continuation(handler_call_details)
        path = str(handler_call_details.method)
        limited = found is not None and path.split("/")[1] not in self._ours
        handler: grpc.RpcMethodHandler[Any, Any] | None = self._limited(found, path) if limited else found
        return handler

    def _limited(self, found: Any, path: str) -> "grpc.RpcMethodHandler[Any, Any]":
        async def each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield await self._receiving.receive(requests, path)

        async def one(requests: AsyncIterator[Any], context: Any) -> Any:
            try:
                return await self._receiving.receive(requests, path)
            except (Problem, StopAsyncIteration) as error:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))

        async def unary(requests: AsyncIterator[Any], context: Any) -> Any:
            return await found.unary_unary(await one(requests, context), context)

        async def unary_stream(requests: AsyncIterator[Any], context: Any) -> Any:
            message = await one(requests, context)
            await streamed(lambda: found.unary_stream(message, context), context)

        async def stream(requests: AsyncIterator[Any], context: Any) -> Any:
            await streamed(lambda: found.stream_stream(each(requests), context), context)

        async def streamed(answer: Callable[[], Any], context: Any) -> None:
            try:
                await self._streams.run(_written(answer, context), path)
            except Unavailable as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            except Problem as error:
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))

        coding = {
            "request_deserializer": found.request_deserializer,
            "response_serializer": found.response_serializer,
        }
        if found.unary_unary:
            return grpc.stream_unary_rpc_method_handler(unary, **coding)
        made = grpc.stream_stream_rpc_method_handler
        return made(unary_stream if found.unary_stream else stream, **coding)


async def _written(answer: Callable[[], Any], context: Any) -> None:
    """Let a handler answer: one that writes to the context, or one that yields."""
    answered = answer()
    if inspect.isawaitable(answered):
        await answered
        return
    async for item in answered:
        await context.write(item)
