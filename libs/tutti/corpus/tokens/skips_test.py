"""Data that is left out is not read, and nothing else is lost or read twice."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.corpus.tokens.skips import until, without
from tutti.records.errors import InvalidSpan

STEPS = 12
gaps = st.tuples(st.integers(1, STEPS), st.integers(0, 5)).map(lambda gap: (gap[0], gap[0] + gap[1]))


@st.composite
def ledgers(draw: st.DrawFn, datasets: int = 1) -> Ledger:
    sizes = draw(st.lists(st.integers(1, 40), min_size=datasets, max_size=datasets))
    shares = tuple(
        DatasetShare(f"d{at}", size, draw(st.integers(1, 4)), draw(st.integers(0, 50))) for at, size in enumerate(sizes)
    )
    leaves, rows = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Ledger((Span(0, shares, draw(st.integers(0, 2**32)), leaves, rows),))


def read(ledger: Ledger, step: int) -> list[tuple[str, int]]:
    """The samples that a step, counted from 1, reads in order."""
    span = ledger.span_at(step - 1)
    ids = span.samples(step - 1, *range(span.leaves))
    names = [share.dataset_version for share in span.datasets]
    return [(names[at], sample) for at, sample in zip(ids.datasets.tolist(), ids.samples.tolist(), strict=True)]


@settings(max_examples=25)
@given(ledgers(), st.lists(gaps, max_size=4))
def test_each_gap_removes_its_steps_from_what_the_gaps_before_it_leave(
    ledger: Ledger, gaps: list[tuple[int, int]]
) -> None:
    left = [read(ledger, step) for step in range(1, 5 * STEPS)]
    for first, last in gaps:
        ledger = without(ledger, first, last)
        del left[first - 1 : last]
    assert [read(ledger, step) for step in range(1, STEPS)] == left[: STEPS - 1]
    assert Ledger.from_json(ledger.to_json()) == ledger


@settings(max_examples=25)
@given(ledgers(datasets=3), gaps)
def test_each_dataset_of_a_mixture_is_read_on_behind_the_gap(ledger: Ledger, gap: tuple[int, int]) -> None:
    first, last = gap
    cut = without(ledger, first, last)
    for at, share in enumerate(ledger.spans[0].datasets):
        behind = replace(share, start=ledger.spans[0].starts_at(last)[at])
        assert cut.span_at(first - 1).datasets[at] == behind
    assert [read(cut, step) for step in range(1, first)] == [read(ledger, step) for step in range(1, first)]


@settings(max_examples=25)
@given(ledgers(), gaps)
def test_the_readings_of_a_sample_are_those_of_the_steps_that_are_left(ledger: Ledger, gap: tuple[int, int]) -> None:
    cut = without(ledger, *gap)
    told: Counter[int] = Counter()
    for sample in range(cut.spans[0].datasets[0].sequences):
        told.update(each.step + 1 for each in cut.readings("d0", sample, before_step=STEPS))
    assert told == Counter({step: cut.spans[0].samples_per_step for step in range(1, STEPS + 1)})


@settings(max_examples=25)
@given(ledgers(), gaps, st.integers(0, 2 * STEPS))
def test_a_state_knows_the_gaps_that_its_steps_went_over(ledger: Ledger, gap: tuple[int, int], step: int) -> None:
    cut = without(ledger, *gap)
    assert until(cut, step).spans == (cut if step >= gap[0] or gap[0] == 1 else ledger).spans
    assert [read(until(cut, step), each) for each in range(1, step + 1)] == [
        read(cut, each) for each in range(1, step + 1)
    ]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (3, 2)])
def test_steps_that_are_none_are_refused(first: int, last: int) -> None:
    with pytest.raises(InvalidSpan, match="leave out"):
        without(Ledger((Span(0, (DatasetShare("d", 5, 1, 0),), 1, 1, 1),)), first, last)
