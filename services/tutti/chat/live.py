"""Answers that are being made in this process, and readers that come, go and come again.

Promises: piece k is the text that token k made visible, for every reader and at every reading; a reader that comes late
gets what it has not seen; an answer continues without readers. Readers are in other event loops than the answer.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator

from tutti.chassis.identity.principal import Principal
from tutti.chat.making import Making, Work
from tutti.chat.recording import words
from tutti.chat.saying import Piece


class Live:
    """An answer of `user` in `tenant`; `ended` is set once its end was shown."""

    def __init__(self, who: Principal, answer: str) -> None:
        self.user, self.tenant, self.answer = who.user, who.tenant, answer
        self.ended = threading.Event()
        self.reason = ""
        self._pieces: list[str] = []
        self._finished = ""
        self._readers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._lock = threading.Lock()
        self._making: Making | None = None
        self._stopped = False

    def is_of(self, who: Principal) -> bool:
        return (self.user, self.tenant) == (who.user, who.tenant)

    def begin(self, work: Work) -> None:
        """Make the answer: `work` shows its pieces, and an error that ends it."""
        self._making = Making(work, self.show)
        if self._stopped:
            self._making.stop()

    def stop(self) -> None:
        """End the answer with its text so far, from any thread; one that has not begun ends when it does."""
        self._stopped = True
        if self._making is not None:
            self._making.stop()

    def show(self, said: Piece | Exception) -> None:
        """Take a piece, or the error that ended the answer; both are journaled."""
        with self._lock:
            if self.ended.is_set():
                return
            if isinstance(said, Exception):
                self.reason = words(said)
            elif said.token is not None:
                self._pieces.append(said.text)
            else:
                self._pieces.append(said.text)
                self._finished = said.finished
            if self.reason or self._finished:
                self.ended.set()
            readers = tuple(self._readers)
        for loop, changed in readers:
            with contextlib.suppress(RuntimeError):  # the server of the pages has ended
                loop.call_soon_threadsafe(changed.set)

    async def read(self, after: int) -> AsyncGenerator[tuple[int, str], None]:
        """Yield the pieces from number `after` on with the number that follows each, until the answer has ended."""
        reader = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._readers.add(reader)
        try:
            while True:
                reader[1].clear()
                with self._lock:
                    found, ended = self._pieces[after:], self.ended.is_set()
                if found:
                    after += len(found)
                    yield after, "".join(found)
                elif ended:
                    return
                else:
                    await reader[1].wait()
        finally:
            with self._lock:
                self._readers.discard(reader)
