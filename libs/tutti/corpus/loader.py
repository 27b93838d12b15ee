"""The loader: samples of a split, by number, from token shards on local disk.

A gather copies each row once out of the page cache; it keeps no state, so any rank may ask for any sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.corpus.batch import PackedSequenceBatch
from tutti.corpus.errors import CorpusError, UnknownSample
from tutti.corpus.tokenshard import TokenShard

_NONE = np.zeros(0, np.int64)


class Loader:
    """Reads one split of one dataset; shards may be given in any order and must be whole."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open the shards; raises CorpusError where a sample is missing or there twice, or the shards do not agree."""
        if not paths:
            raise CorpusError("a loader needs at least one token shard; was the dataset staged?")
        self.shards = sorted((TokenShard(path) for path in paths), key=lambda shard: shard.first_sample)
        first = self.shards[0].header
        expected = 0
        for shard in self.shards:
            header = shard.header
            if (header.context, header.vocabulary, header.eos) != (first.context, first.vocabulary, first.eos):
                raise CorpusError(f"{shard.name} and {self.shards[0].name} are shards of different datasets")
            if shard.first_sample != expected:
                raise CorpusError(
                    f"{shard.name} begins with sample {shard.first_sample}, expected {expected}: stage every shard once"
                )
            expected += shard.sequences
        self.sequences = expected
        self.context = first.context
        self.vocabulary = first.vocabulary
        self.eos = first.eos
        self._firsts = np.array([shard.first_sample for shard in self.shards], np.int64)

    def batch(self, samples: npt.NDArray[np.int64] | Sequence[int]) -> PackedSequenceBatch:
        """The rows of `samples`, in that order; raises UnknownSample for a number that the split does not have."""
        wanted = np.ascontiguousarray(samples, np.int64)
        if wanted.ndim != 1 or len(wanted) == 0:
            raise CorpusError(f"expected a list of at least one sample, seen shape {wanted.shape}")
        if wanted.view(np.uint64).max() >= self.sequences:  # as unsigned, what is negative is vast
            raise UnknownSample(f"samples {wanted.min()} to {wanted.max()}: this split has 0 to {self.sequences - 1}")
        if len(self.shards) == 1:
            return self._gather(self.shards[0], wanted)
        owner = np.searchsorted(self._firsts, wanted, side="right") - 1
        width = self.context + 1
        tokens = np.empty((len(wanted), width), np.int32)
        lengths = np.empty(len(wanted), np.int64)
        boundaries = []
        for index in np.unique(owner):
            rows = np.flatnonzero(owner == index)
            part = self._gather(self.shards[index], wanted[rows])
            tokens[rows], lengths[rows] = part.tokens, part.lengths
            boundaries.append(rows[part.boundaries // width] * width + part.boundaries % width)
        return PackedSequenceBatch(tokens, lengths, np.sort(np.concatenate(boundaries)))

    def _gather(self, shard: TokenShard, wanted: npt.NDArray[np.int64]) -> PackedSequenceBatch:
        local = wanted - shard.first_sample
        tokens = shard.rows[local].astype(np.int32)
        begins = local * self.context
        lengths = np.minimum(shard.header.tokens_used - begins, self.context + 1)
        first = shard.starts.searchsorted(begins, side="right")
        count = shard.starts.searchsorted(begins + lengths) - first
        if not count.any():
            return PackedSequenceBatch(tokens, lengths, _NONE)
        row = np.repeat(np.arange(len(local)), count)
        within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        boundaries = row * (self.context + 1) + shard.starts[first[row] + within] - begins[row]
        return PackedSequenceBatch(tokens, lengths, boundaries)
