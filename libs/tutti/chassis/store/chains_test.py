"""Chains of seals: what a change of any sealed record does to them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.store.chains import DATABASE, NEITHER, Difference, examine
from tutti.chassis.store.seals import FIRST, BadBatch, Batch, Row, decoded


def row(seq: int, **more: Any) -> dict[str, Any]:
    return {"seq": seq, "at": seq * 1_000_000, "user": "users/a", "action": "CancelJob", "outcome": "changed"} | more


def chain(*sizes: int) -> list[Batch]:
    batches: list[Batch] = []
    seq = 1
    for number, size in enumerate(sizes, FIRST):
        previous = batches[-1].digest if batches else ""
        batches.append(Batch("scheduler", number, previous, tuple(row(seq + index) for index in range(size))))
        seq += size
    return batches


def told(batches: list[Batch], rows: Sequence[Row] | None = None, since: int = 0) -> list[Difference]:
    """The differences between these batches and records, those of the batches unless others are given."""
    sealed = [one for each in batches for one in each.rows] if rows is None else rows
    stored = [(each.number, each.encoded()) for each in batches]
    return list(examine("scheduler", stored, sealed, None, since).differences)


def test_a_chain_that_nobody_touched_holds() -> None:
    batches = chain(2, 1, 3)
    assert told(batches) == []
    assert [decoded(each.encoded()) for each in batches] == batches


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.data())
def test_a_change_of_any_sealed_record_is_noticed(sizes: list[int], data: st.DataObject) -> None:
    """But in the newest batch, whose digest the next one seals, or the head in the database."""
    batches = chain(*sizes)
    victim = data.draw(st.integers(0, len(batches) - 2))
    index = data.draw(st.integers(0, sizes[victim] - 1))
    rows = list(batches[victim].rows)
    rows[index] = {**rows[index], "user": "users/b"}
    forged = [*batches[:victim], replace(batches[victim], rows=tuple(rows)), *batches[victim + 1 :]]
    assert [(each.place, each.fits) for each in told(forged)] == [(f"batch {victim + 1}", NEITHER)]
    whole = [one for each in batches for one in each.rows]
    assert [(each.place, each.fits) for each in told(forged, whole)] == [(f"batch {victim + 1}", DATABASE)]
    assert forged[-1].digest == batches[-1].digest
    removed = [*batches[:victim], *batches[victim + 1 :]]
    assert [(each.place, each.fits) for each in told(removed, whole)] == [(f"batch {victim + 1}", DATABASE)]


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data + b" ", lambda _: b"[]", lambda _: b"{}"])
def test_bytes_that_are_no_batch_are_named(harm: Any) -> None:
    batches = chain(1, 1)
    first, second = (each.encoded() for each in batches)
    with pytest.raises(BadBatch):
        decoded(harm(first))
    rows = [one for each in batches for one in each.rows]
    found = examine("scheduler", [(1, harm(first)), (2, second)], rows, None, 0)
    assert [(each.place, each.fits) for each in found.differences] == [("batch 1", DATABASE)]
    assert found.batches == tuple(batches)


def test_a_record_that_the_database_lacks_or_has_otherwise_is_named() -> None:
    batches = chain(3)
    rows: list[Any] = [row(1), row(2, user="users/b")]
    assert [each.message for each in told(batches, rows)] == [
        "record 2 (users/a: CancelJob) was changed in the database; audit/scheduler/000000000001 has it",
        "record 3 (users/a: CancelJob) was removed from the database; audit/scheduler/000000000001 has it",
    ]
    assert told(batches, [row(3)], since=3_000_000) == []  # what was pruned by age is not missed
