"""The journal of answers: what is said of all answers in progress is committed together, before a reader sees it.

Promises: the caller of `add` learns of the commit after it, in the order of the entries; while the database is away,
entries wait, and after a deadline their callers get an error. For the event loop of gRPC
(`tutti.chassis.rpc.eventloop`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tutti.backbone.backoff import Backoff
from tutti.chassis.errors import Unavailable, is_transient
from tutti.chat.keys import Keyed
from tutti.chat.records import AnswerRecord
from tutti.chat.requests import ChatRequest
from tutti.chat.saying import Score

GATHER_SECONDS = 0.02
"""The pause between two commits, which delays a token by no more, beside the commit itself."""
AWAY_SECONDS = 60.0
BACKOFF = Backoff(0.1, 2.0)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """An answer begins. `user` and `tenant` asked for it, `deployment` answers; `seed` is the one that is used."""

    answer: str
    user: str
    tenant: str
    deployment: str
    checkpoint: str
    request: ChatRequest
    seed: int


@dataclass(frozen=True)
class Said:
    """Token `at` of an answer, with its log-probabilities where they were asked for."""

    answer: str
    at: int
    token: int
    score: Score | None = None


@dataclass(frozen=True)
class Finished:
    """An answer has ended, with this record and this text; `reason` is the error that ended it."""

    begun: Begun
    record: AnswerRecord
    text: str = ""
    reason: str = ""


Entry: TypeAlias = Begun | Keyed | Said | Finished
Then: TypeAlias = Callable[[Exception | None], None]
"""Called with None after the commit, or with the reason why there was none."""


class Journal:
    """`commit` writes entries in one transaction, in a thread; written entries that come again change nothing."""

    def __init__(self, commit: Callable[[Sequence[Entry]], None], *, away_seconds: float = AWAY_SECONDS) -> None:
        self._commit, self._away = commit, away_seconds
        self._waiting: list[tuple[Entry, Then]] = []
        self._writing: asyncio.Task[None] | None = None

    def add(self, entry: Entry, then: Then = lambda error: None) -> None:
        self._waiting.append((entry, then))
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write_all())

    async def written(self, entry: Entry) -> None:
        """Add an entry and wait for its commit. Raises the reason why there was none."""
        committed = asyncio.get_running_loop().create_future()

        def then(error: Exception | None) -> None:
            if committed.done():
                return
            if error is None:
                committed.set_result(None)
            else:
                committed.set_exception(error)

        self.add(entry, then)
        await committed

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                error = await self._write([entry for entry, _ in batch])
                for _, then in batch:
                    try:
                        then(error)
                    except Exception:  # of one answer, which must not keep the others waiting
                        log.exception("a committed entry could not be passed on")
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            self._writing = None

    async def _write(self, entries: Sequence[Entry]) -> Exception | None:
        """Commit; None, or the reason why it could not be done in time."""
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + self._away, 0
        while True:
            try:
                await asyncio.to_thread(self._commit, entries)
            except Exception as error:
                failures += 1
                wait = BACKOFF.drawn(failures)
                if not is_transient(error):
                    log.error("answers could not be journaled", exc_info=error)
                    return error
                if loop.time() + wait > deadline:
                    return Unavailable(f"the answer could not be journaled for {self._away:g} s: {error}")
                log.warning("the journal of answers waits: %s", error)
                await asyncio.sleep(wait)
            else:
                return None
