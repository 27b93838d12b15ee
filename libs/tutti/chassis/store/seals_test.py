"""Seals: what a change of any sealed record does to the chain."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chassis.store.seals import FIRST, BadBatch, Batch, broken, compared, decoded


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


def told(batches: list[Batch]) -> list[str]:
    return broken("scheduler", [(each.number, each.encoded()) for each in batches])[0]


def test_a_chain_that_nobody_touched_holds() -> None:
    batches = chain(2, 1, 3)
    assert told(batches) == []
    assert [decoded(each.encoded()) for each in batches] == batches
    assert compared(batches, [dict(one) for each in batches for one in each.rows], 0) == []


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.data())
def test_a_change_of_any_sealed_record_is_noticed(sizes: list[int], data: st.DataObject) -> None:
    """But in the newest batch, whose digest the next one seals, or whoever wrote it down."""
    batches = chain(*sizes)
    victim = data.draw(st.integers(0, len(batches) - 2))
    index = data.draw(st.integers(0, sizes[victim] - 1))
    rows = list(batches[victim].rows)
    rows[index] = {**rows[index], "user": "users/b"}
    forged = [*batches[:victim], replace(batches[victim], rows=tuple(rows)), *batches[victim + 1 :]]
    assert "does not continue the batch before" in told(forged)[0]
    assert forged[-1].digest == batches[-1].digest
    removed = [*batches[:victim], *batches[victim + 1 :]]
    assert any("is missing" in each for each in told(removed))


@pytest.mark.parametrize("harm", [lambda data: data[:-1], lambda data: data + b" ", lambda _: b"[]", lambda _: b"{}"])
def test_bytes_that_are_no_batch_are_named(harm: Any) -> None:
    data = chain(1)[0].encoded()
    with pytest.raises(BadBatch):
        decoded(harm(data))
    assert "audit/scheduler/000000000001 was changed" in broken("scheduler", [(1, harm(data))])[0][0]


def test_a_record_that_the_database_lacks_or_has_otherwise_is_named() -> None:
    batches = chain(3)
    rows: list[Any] = [row(1), row(2, user="users/b")]
    assert compared(batches, rows, 0) == [
        "record 2 (users/a: CancelJob) was changed in the database; audit/scheduler/000000000001 has it",
        "record 3 (users/a: CancelJob) was removed from the database; audit/scheduler/000000000001 has it",
    ]
    assert compared(batches, [row(3)], since=3_000_000) == []  # what was pruned by age is not missed
