"""The journal: what is added is committed together, in order, and nobody learns of it before."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tutti.backbone.database import Conflict, DatabaseUnavailable
from tutti.chassis.errors import Unavailable
from tutti.chat.journal import Entry, Journal, Said


class Stored:
    """Commits after the first `failures` tries, which raise an error."""

    def __init__(self, error: Exception | None = None, failures: int = 0) -> None:
        self.batches: list[list[Entry]] = []
        self._error, self._failures = error, failures

    def commit(self, entries: Sequence[Entry]) -> None:
        assert threading.current_thread() is not threading.main_thread()
        if self._failures:
            self._failures -= 1
            assert self._error is not None
            raise self._error
        self.batches.append(list(entries))


def said(answer: int, at: int) -> Said:
    return Said(f"answers/{answer}", at, 7)


def test_entries_of_many_answers_are_committed_together_and_told_in_their_order() -> None:
    stored, told = Stored(), list[Entry]()
    entries = [said(answer, at) for at in range(30) for answer in range(8)]

    async def run() -> None:
        journal = Journal(stored.commit)
        for entry in entries:

            def then(error: Exception | None, entry: Entry = entry) -> None:
                assert error is None
                assert any(entry in batch for batch in stored.batches)
                told.append(entry)

            journal.add(entry, then)
        await journal.written(said(9, 0))

    asyncio.run(run())
    assert told == entries
    assert [entry for batch in stored.batches for entry in batch] == [*entries, said(9, 0)]
    assert len(stored.batches) < 4


def test_entries_wait_while_the_database_is_away() -> None:
    stored = Stored(DatabaseUnavailable("away"), failures=2)
    asyncio.run(written(Journal(stored.commit)))
    assert stored.batches == [[said(0, 0)]]


@pytest.mark.parametrize(
    ("error", "raised"), [(DatabaseUnavailable("away"), Unavailable), (Conflict("twice"), Conflict)]
)
def test_what_could_not_be_committed_is_told_as_an_error_and_later_entries_are_committed(
    error: Exception, raised: type[Exception]
) -> None:
    stored = Stored(error, failures=1)

    async def run() -> None:
        journal = Journal(stored.commit, away_seconds=0)
        with pytest.raises(raised):
            await journal.written(said(0, 0))
        await journal.written(said(0, 1))

    asyncio.run(run())
    assert stored.batches == [[said(0, 1)]]


async def written(journal: Journal) -> None:
    await journal.written(said(0, 0))
