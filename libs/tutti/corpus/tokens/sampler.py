"""The sampler: which samples a step reads, as arithmetic.

A *span* maps (step, leaf, row) to (dataset, sample) and back with no state, so a job resumes at any step on any number
of ranks and reads what it would have read.  Every sample of a dataset is read once an epoch, in an order keyed by the
span's seed, the dataset and the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count, groupby
from math import gcd
from typing import TYPE_CHECKING

from tutti.corpus.tokens.permutation import Permutation
from tutti.native.deferred import deferred
from tutti.records.canonical import JsonValue, keyed_bytes
from tutti.records.errors import InvalidSpan, UnknownSample
from tutti.records.fields import Fields
from tutti.records.records import later, written

if TYPE_CHECKING:
    import numpy as np

    from tutti.corpus.tokens.permutation import Integers
else:
    np = deferred("numpy")

MAX_WEIGHTS = 65_536
_MAX_EXACT = 2**53 - 1


@dataclass(frozen=True, slots=True)
class DatasetShare:
    """A dataset in a mixture: `weight` of every sum(weights) samples, from its `start`-th reading on.

    `start` counts the samples of this dataset that earlier spans have read.
    """

    dataset_version: str
    sequences: int
    weight: int
    start: int


@dataclass(frozen=True, slots=True)
class SampleIds:
    """For each row: which dataset of the span (int64 [rows]) and which sample of it (int64 [rows])."""

    datasets: Integers
    samples: Integers


@dataclass(frozen=True, slots=True, order=True)
class Reading:
    """One place where a sample is read."""

    step: int
    leaf: int
    row: int


@dataclass(frozen=True)
class Span:
    """The order of samples from `from_step` on: `leaves` logical microbatches (G) of `rows_per_leaf` samples a step.

    `every` consecutive steps read the same samples, as the steps of an iteration over one batch of rollouts do.
    """

    from_step: int
    datasets: tuple[DatasetShare, ...]
    seed: int
    leaves: int
    rows_per_leaf: int
    every: int = later(1, since="0.2")

    def __post_init__(self) -> None:
        for name, value, least in (
            ("from_step", self.from_step, 0),
            ("seed", self.seed, 0),
            ("leaves", self.leaves, 1),
            ("rows_per_leaf", self.rows_per_leaf, 1),
            ("every", self.every, 1),
        ):
            if not least <= value <= _MAX_EXACT:
                raise InvalidSpan(f"{name} is {value}, expected {least} to {_MAX_EXACT}")
        names = [share.dataset_version for share in self.datasets]
        if not names or len(set(names)) != len(names):
            raise InvalidSpan(f"datasets {names}: expected at least one, each once")
        for share in self.datasets:
            if share.sequences < 1 or share.weight < 1 or not 0 <= share.start <= _MAX_EXACT:
                raise InvalidSpan(
                    f"dataset {share.dataset_version}: {share.sequences} sequences, weight {share.weight}, start "
                    f"{share.start}; expected at least 1, 1 and 0"
                )
        if sum(self._weights) > MAX_WEIGHTS:
            raise InvalidSpan(f"the weights add up to {sum(self._weights)}, expected at most {MAX_WEIGHTS}: round them")

    @property
    def samples_per_step(self) -> int:
        return self.leaves * self.rows_per_leaf

    def samples(self, step: int, *leaves: int) -> SampleIds:
        """The rows of some leaves of one step, leaf after leaf, each in order."""
        if step < self.from_step or not all(0 <= leaf < self.leaves for leaf in leaves):
            raise InvalidSpan(
                f"step {step}, leaves {leaves}: this span begins at step {self.from_step} and has {self.leaves} leaves"
            )
        first = (step - self.from_step) // self.every * self.samples_per_step
        begins = first + np.array(leaves, np.int64)[:, None] * self.rows_per_leaf
        positions = (begins + np.arange(self.rows_per_leaf, dtype=np.int64)).reshape(-1)
        block, slot = np.divmod(positions, len(self._pattern))
        datasets = self._pattern[slot]
        samples = np.empty_like(positions)
        for index in np.unique(datasets):
            rows = np.flatnonzero(datasets == index)
            share = self.datasets[index]
            readings = share.start + block[rows] * self._weights[index] + self._rank[slot[rows]]
            epochs, offsets = np.divmod(readings, share.sequences)
            for epoch in np.unique(epochs):
                chosen = epochs == epoch
                samples[rows[chosen]] = self._order(int(index), int(epoch)).forward(offsets[chosen])
        return SampleIds(datasets, samples)

    def inverse(self, dataset: int, sample: int, *, before_step: int) -> Iterator[Reading]:
        """Every place before `before_step` that reads `sample` of the `dataset`-th dataset, in order of steps."""
        if not 0 <= dataset < len(self.datasets) or not 0 <= sample < self.datasets[dataset].sequences:
            raise UnknownSample(f"dataset {dataset}, sample {sample}: this span has no such sample")
        for batch, places in groupby(self._places(dataset, sample), key=lambda place: place[0]):
            first = self.from_step + batch * self.every
            if first >= before_step:
                return
            within = [divmod(place, self.rows_per_leaf) for _, place in places]
            for step in range(first, min(first + self.every, before_step)):
                for leaf, row in within:
                    yield Reading(step, leaf, row)

    def _places(self, dataset: int, sample: int) -> Iterator[tuple[int, int]]:
        """Every place that reads a sample, without end: the number of the batch, and the place in it."""
        share, weight = self.datasets[dataset], self._weights[dataset]
        slots = np.flatnonzero(self._pattern == dataset)
        wanted = np.array([sample], np.int64)
        for epoch in count(share.start // share.sequences):
            reading = epoch * share.sequences + int(self._order(dataset, epoch).inverse(wanted)[0]) - share.start
            if reading >= 0:
                block, rank = divmod(reading, weight)
                yield divmod(block * len(self._pattern) + int(slots[rank]), self.samples_per_step)

    def starts_at(self, step: int) -> tuple[int, ...]:
        """For each dataset, the `start` of a span that goes on at `step` where this one stops."""
        if step < self.from_step:
            raise InvalidSpan(f"step {step}: this span begins at step {self.from_step}")
        batches = -(-(step - self.from_step) // self.every)
        blocks, rest = divmod(batches * self.samples_per_step, len(self._pattern))
        partial = np.bincount(self._pattern[:rest], minlength=len(self.datasets))
        return tuple(
            share.start + blocks * weight + int(extra)
            for share, weight, extra in zip(self.datasets, self._weights, partial, strict=True)
        )

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        divisor = gcd(*(share.weight for share in self.datasets))
        return tuple(share.weight // divisor for share in self.datasets)

    @cached_property
    def _pattern(self) -> Integers:
        """The dataset that each of sum(weights) consecutive positions reads, shuffled once by the seed."""
        plain = np.repeat(np.arange(len(self._weights), dtype=np.int64), self._weights)
        key = keyed_bytes("mixture", self.seed.to_bytes(8, "little"))
        return plain[Permutation(len(plain), key).forward(np.arange(len(plain), dtype=np.int64))]

    @cached_property
    def _rank(self) -> Integers:
        """For each slot of the pattern, how many earlier slots read the same dataset."""
        rank = np.empty_like(self._pattern)
        for index, weight in enumerate(self._weights):
            rank[self._pattern == index] = np.arange(weight)
        return rank

    def _order(self, dataset: int, epoch: int) -> Permutation:
        share = self.datasets[dataset]
        orders = self._orders
        found = orders.get((dataset, epoch))
        if found is None:  # another thread may forget it again, so that it is kept here
            if len(orders) >= 64:
                orders.clear()
            key = keyed_bytes(
                "epoch", self.seed.to_bytes(8, "little"), share.dataset_version.encode(), epoch.to_bytes(8, "little")
            )
            orders[dataset, epoch] = found = Permutation(share.sequences, key)
        return found

    @cached_property
    def _orders(self) -> dict[tuple[int, int], Permutation]:
        return {}

    def to_json(self) -> dict[str, JsonValue]:
        return written(self)

    @classmethod
    def from_json(cls, value: Mapping[str, JsonValue] | Fields) -> Span:
        """Raises InvalidSpan naming the field that is missing or wrong."""
        fields = value if isinstance(value, Fields) else Fields(value, path="span", error=InvalidSpan)
        return fields.record(cls)
