"""Answers on their way in the event loop of gRPC, which readers in other loops and threads can end.

Promises: an answer that is ended has begun before, so it has a record; a call that ends it does not wait.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeAlias

from tutti.chassis.rpc import eventloop
from tutti.chat.recording import Show
from tutti.chat.saying import Piece

Work: TypeAlias = Callable[[Show], Coroutine[Any, Any, None]]
"""Makes an answer, and shows its pieces, and an error that ends it."""


class Making:
    """Work that begins at once; an error of its own is shown too."""

    def __init__(self, work: Work, show: Show) -> None:
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._running = asyncio.run_coroutine_threadsafe(self._run(work, show), eventloop.event_loop())

    def stop(self) -> None:
        """End it, from any thread."""

        def stop() -> None:
            self._stopped = True
            if self._task is not None:
                self._task.cancel()

        eventloop.event_loop().call_soon_threadsafe(stop)

    async def _run(self, work: Work, show: Show) -> None:
        task = asyncio.ensure_future(work(show))
        await asyncio.sleep(0)  # it has begun, so a cancellation from now on lets it record its end
        self._task = task
        if self._stopped:
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        except Exception as error:
            show(error)


class Crossing:
    """The pieces of `choices` in the event loop of their reader, until each has one that says why it ended."""

    def __init__(self, work: Work, choices: int = 1) -> None:
        self._running = choices
        here, self._queue = asyncio.get_running_loop(), asyncio.Queue[Piece | Exception]()

        def show(said: Piece | Exception) -> None:
            with contextlib.suppress(RuntimeError):  # the server of the pages has ended
                here.call_soon_threadsafe(self._queue.put_nowait, said)

        self._making = Making(work, show)

    async def __aiter__(self) -> AsyncGenerator[Piece, None]:
        """Yield the pieces. Raises the error that ended the answer."""
        while self._running:
            said = await self._queue.get()
            if isinstance(said, Exception):
                raise said
            self._running -= bool(said.finished)
            yield said

    def close(self) -> None:
        """End the answer, if it has not ended: its reader has left."""
        self._making.stop()
