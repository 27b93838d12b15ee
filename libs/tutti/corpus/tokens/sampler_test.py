"""The order of samples: a bijection, inverted exactly, the same for any number of ranks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.tokens.ledger import Ledger, LedgerReading, SkippedStep
from tutti.corpus.tokens.permutation import Permutation
from tutti.corpus.tokens.sampler import DatasetShare, Reading, Span
from tutti.records.errors import InvalidSpan

KEYS = st.binary(min_size=0, max_size=40)


@given(size=st.integers(1, 700), key=KEYS)
@settings(max_examples=60)
def test_a_permutation_is_a_bijection_and_its_inverse_undoes_it(size: int, key: bytes) -> None:
    permutation, every = Permutation(size, key), np.arange(size, dtype=np.int64)
    forward = permutation.forward(every)
    assert sorted(forward.tolist()) == every.tolist()
    assert permutation.inverse(forward).tolist() == every.tolist()


@given(size=st.integers(2**40, 2**52), key=KEYS, value=st.integers(0, 2**40 - 1))
@settings(max_examples=60)
def test_a_permutation_of_a_vast_range_is_undone_too(size: int, key: bytes, value: int) -> None:
    permutation = Permutation(size, key)
    there = permutation.forward(np.array([value], np.int64))
    assert 0 <= there[0] < size
    assert permutation.inverse(there).tolist() == [value]


def test_the_permutation_is_pinned_because_checkpoints_depend_on_it() -> None:
    assert Permutation(10, b"golden").forward(np.arange(10, dtype=np.int64)).tolist() == [5, 6, 8, 2, 3, 0, 9, 1, 7, 4]
    small = {4: [1, 2, 3, 0], 5: [0, 4, 1, 2, 3], 16: [5, 6, 8, 2, 11, 10, 9, 1, 12, 14, 13, 3, 15, 0, 4, 7]}
    small[17] = [16, 15, 1, 10, 9, 14, 0, 2, 13, 4, 8, 3, 12, 11, 5, 6, 7]
    for size, expected in small.items():  # the network covers the next power of four: 4, 16, 16 and 64
        assert Permutation(size, b"golden").forward(np.arange(size, dtype=np.int64)).tolist() == expected
    vast = Permutation(2**41 + 7, b"golden")
    assert vast.forward(np.array([0, 1, 2**40, 2**41 + 6], np.int64)).tolist() == [
        18010292507,
        1488281647615,
        888721424018,
        235538421849,
    ]


@st.composite
def spans(draw: st.DrawFn) -> Span:
    shares = tuple(
        DatasetShare(f"d{index}", draw(st.integers(1, 30)), draw(st.integers(1, 4)), draw(st.integers(0, 70)))
        for index in range(draw(st.integers(1, 3)))
    )
    return Span(
        from_step=draw(st.integers(0, 5)),
        datasets=shares,
        seed=draw(st.integers(0, 2**53 - 1)),
        leaves=draw(st.integers(1, 6)),
        rows_per_leaf=draw(st.integers(1, 4)),
        every=draw(st.sampled_from([1, 1, 2, 3])),
    )


def table(span: Span, *, steps: int) -> dict[Reading, tuple[int, int]]:
    """Every reading of the first `steps` steps, the slow way."""
    found = {}
    for step in range(span.from_step, span.from_step + steps):
        for leaf in range(span.leaves):
            ids = span.samples(step, leaf)
            for row, pair in enumerate(zip(ids.datasets.tolist(), ids.samples.tolist(), strict=True)):
                found[Reading(step, leaf, row)] = pair
    return found


@given(span=spans(), steps=st.integers(1, 8))
@settings(max_examples=60)
def test_the_inverse_names_exactly_the_places_that_read_a_sample(span: Span, steps: int) -> None:
    forward = table(span, steps=steps)
    for index, share in enumerate(span.datasets):
        for sample in range(share.sequences):
            expected = sorted(place for place, pair in forward.items() if pair == (index, sample))
            assert list(span.inverse(index, sample, before_step=span.from_step + steps)) == expected


@given(span=spans(), data=st.data())
@settings(max_examples=60)
def test_leaves_asked_for_together_are_those_asked_for_alone(span: Span, data: st.DataObject) -> None:
    wanted = data.draw(st.permutations(range(span.leaves)))
    together, alone = span.samples(span.from_step, *wanted), [span.samples(span.from_step, leaf) for leaf in wanted]
    assert together.samples.tolist() == [sample for ids in alone for sample in ids.samples]
    assert together.datasets.tolist() == [index for ids in alone for index in ids.datasets]


@given(span=spans(), steps=st.integers(0, 5))
@settings(max_examples=60)
def test_a_span_that_goes_on_reads_what_its_predecessor_had_not(span: Span, steps: int) -> None:
    at = span.from_step + steps
    starts = span.starts_at(at)
    first = {
        place: pair
        for place, pair in table(span, steps=steps).items()
        if not (place.step - span.from_step) % span.every
    }
    read = list(first.values())
    for index, share in enumerate(span.datasets):
        assert starts[index] == share.start + sum(1 for dataset, _ in read if dataset == index)


def test_every_epoch_reads_every_sample_once_in_another_order() -> None:
    span = Span(from_step=0, datasets=(DatasetShare("d", 12, 1, 0),), seed=1, leaves=3, rows_per_leaf=2)
    read = [sample for _, sample in table(span, steps=6).values()]
    epochs = [read[0:12], read[12:24], read[24:36]]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_a_mixture_keeps_its_weights_in_every_block() -> None:
    shares = (DatasetShare("a", 50, 3, 0), DatasetShare("b", 50, 1, 0))
    span = Span(from_step=0, datasets=shares, seed=1, leaves=2, rows_per_leaf=2)
    for step in range(5):
        read = [int(index) for leaf in range(2) for index in span.samples(step, leaf).datasets]
        assert sorted(read) == [0, 0, 0, 1]


def test_seed_and_dataset_change_the_order() -> None:
    span = Span(from_step=0, datasets=(DatasetShare("d", 99, 1, 0),), seed=1, leaves=1, rows_per_leaf=99)
    other = replace(span, datasets=(DatasetShare("e", 99, 1, 0),))
    orders = {tuple(each.samples(0, 0).samples.tolist()) for each in (span, replace(span, seed=2), other)}
    assert len(orders) == 3


def span_of(from_step: int, start: int = 0) -> Span:
    return Span(from_step=from_step, datasets=(DatasetShare("d", 7, 1, start),), seed=3, leaves=2, rows_per_leaf=2)


def test_a_ledger_finds_the_readings_of_every_span_and_marks_skipped_steps() -> None:
    ledger = Ledger((span_of(0), span_of(4, start=30))).skip(5, cause="not finite")
    expected = [
        LedgerReading(step, leaf, row, step == 5)
        for step in range(9)
        for leaf in range(2)
        for row, sample in enumerate(ledger.samples(step, leaf).samples.tolist())
        if sample == 4
    ]
    assert list(ledger.readings("d", 4, before_step=9)) == expected
    assert list(ledger.readings("another", 4, before_step=9)) == []
    assert [ledger.span_at(step).from_step for step in (0, 3, 4, 9)] == [0, 0, 4, 4]
    for before in range(9):
        earlier = [reading for reading in expected if reading.step < before]
        assert list(ledger.readings("d", 4, before_step=before)) == earlier


def test_a_dataset_that_only_a_later_span_reads_is_found_there() -> None:
    other = replace(span_of(4), datasets=(DatasetShare("e", 7, 1, 0),))
    readings = list(Ledger((span_of(0), other)).readings("e", 4, before_step=8))
    assert readings
    assert all(reading.step >= 4 for reading in readings)


@given(span=spans())
@settings(max_examples=20)
def test_a_ledger_comes_back_from_its_canonical_form(span: Span) -> None:
    ledger = Ledger((replace(span, from_step=0),)).skip(2, cause="spike")
    assert Ledger.from_json(ledger.to_json()) == ledger


def test_impossible_spans_and_ledgers_are_refused() -> None:
    with pytest.raises(InvalidSpan, match="expected the first at 0"):
        Ledger((span_of(1),))
    with pytest.raises(InvalidSpan, match=r"begin at steps \[\]"):
        Ledger(())
    for starts in ((0, 0), (0, 4, 3)):
        with pytest.raises(InvalidSpan, match="each later than the one before"):
            Ledger(tuple(map(span_of, starts)))
    for steps in ((2, 2), (3, 2), (-1,), (-1, 3)):
        with pytest.raises(InvalidSpan, match="in order, each once"):
            Ledger((span_of(0),), tuple(SkippedStep(step, "spike") for step in steps))
    with pytest.raises(InvalidSpan, match="counted from 0"):
        Ledger((span_of(0),)).span_at(-1)
    assert Ledger((span_of(0),)).skip(0, cause="spike").skipped == (SkippedStep(0, "spike"),)
    with pytest.raises(InvalidSpan, match="leaves is 0"):
        replace(span_of(0), leaves=0)
    with pytest.raises(InvalidSpan, match="begins at step 3"):
        span_of(3).samples(2, 0)
    with pytest.raises(InvalidSpan, match=r"ledger\.spans: missing"):
        Ledger.from_json({"skipped": []})
