"""Mixtures: weights as near to the wanted epochs as is said, and rows that are those of each dataset."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.mixture import MixedLoader, weights_of_epochs
from tutti.corpus.tokens.sampler import MAX_WEIGHTS, DatasetShare, SampleIds, Span
from tutti.corpus.tokens.shards_test import opened, packed_run, run_of
from tutti.records.errors import CorpusError, InvalidSpan

DATASETS = st.lists(st.tuples(st.integers(1, 10**4), st.integers(1, 100)), min_size=1, max_size=5)


@given(datasets=DATASETS, unit=st.sampled_from([0.25, 1, 7]))
@settings(max_examples=20)
def test_a_part_is_off_by_a_hundredth_or_by_what_the_sum_of_weights_lets_it(
    datasets: list[tuple[int, int]], unit: float
) -> None:
    sequences, epochs = zip(*datasets, strict=True)
    weights = weights_of_epochs(sequences, [unit * each for each in epochs])
    assert min(weights) >= 1
    assert sum(weights) <= MAX_WEIGHTS
    whole = sum(count * times for count, times in datasets)
    shares = [count * times / whole for count, times in datasets]
    off = [abs(weight / sum(weights) - share) / share for weight, share in zip(weights, shares, strict=True)]
    assert max(off) <= 0.0100001 or sum(weights) > MAX_WEIGHTS - len(datasets), "else more would be nearer"
    assert weights == weights_of_epochs(sequences, epochs), "the unit of the epochs says nothing"
    backwards = weights_of_epochs(sequences[::-1], epochs[::-1])
    assert sorted(zip(sequences, epochs, weights, strict=True)) == sorted(
        zip(sequences[::-1], epochs[::-1], backwards, strict=True)
    )


def test_weights_are_as_small_as_they_can_be() -> None:
    assert weights_of_epochs([500], [3]) == (1,)
    assert weights_of_epochs([100, 100], [1, 2]) == (1, 2)
    assert weights_of_epochs([10_007, 5_003], [1, 1]) == (2, 1)
    assert weights_of_epochs([10**9, 3], [1, 1]) == (MAX_WEIGHTS - 1, 1), "it is read more often than was wanted"
    for sequences, epochs in (([], []), ([3], [0.0]), ([0], [1]), ([3], [float("nan")]), ([3, 4], [1])):
        with pytest.raises(InvalidSpan):
            weights_of_epochs(sequences, epochs)


@given(first=st.integers(1, 60), second=st.integers(1, 60), times=st.integers(1, 4))
@settings(max_examples=40)
def test_a_span_of_these_weights_reads_each_dataset_about_as_often_as_was_wanted(
    first: int, second: int, times: int
) -> None:
    weights = weights_of_epochs([first, second], [1, times])
    shares = (DatasetShare("a", first, weights[0], 0), DatasetShare("b", second, weights[1], 0))
    span = Span(from_step=0, datasets=shares, seed=3, leaves=1, rows_per_leaf=1)
    read = span.starts_at(100 * (first + times * second))
    assert abs(read[0] / first / 100 - 1) < 0.03
    assert abs(read[1] / second / 100 / times - 1) < 0.03


@given(wanted=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20))
@settings(max_examples=40)
def test_the_rows_of_a_mixture_are_those_of_its_datasets(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    opened(folder, run_of(sequences=3, context=8, lengths=[4, 5, 1, 7, 7], padding=1), "a")
    opened(folder, run_of(sequences=4, context=8, lengths=[2, 9, 14], padding=0), "b")
    opened(folder, packed_run(), "c")
    loaders = {name: Loader([folder / name]) for name in "abc"}
    datasets, samples = (np.array(each, np.int64) for each in zip(*wanted, strict=True))
    batch = MixedLoader(loaders).batch(SampleIds(datasets, samples), "abc")
    singles = [loaders["abc"[dataset]].batch([sample]) for dataset, sample in wanted]
    for field in ("tokens", "lengths", "documents", "valid", "positions"):
        assert np.array_equal(getattr(batch, field), np.concatenate([getattr(one, field) for one in singles]))


def test_what_does_not_agree_is_not_mixed_and_what_is_missing_is_named(tmp_path: Path) -> None:
    opened(tmp_path, run_of(sequences=2, context=4, lengths=[9]), "a")
    opened(tmp_path, run_of(sequences=2, context=6, lengths=[13]), "b")
    loaders = {name: Loader([tmp_path / name]) for name in ("a", "b")}
    with pytest.raises(CorpusError, match="cannot be mixed"):
        MixedLoader(loaders)
    ids = SampleIds(np.array([0]), np.array([0]))
    with pytest.raises(CorpusError, match="reads c, which is none of a"):
        MixedLoader({"a": loaders["a"]}).batch(ids, ("c",))
