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
from tutti.corpus.tokenshard import Header, TokenShard


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
            if _common(header) != _common(first):
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
        self.packed = first.packed
        self._firsts = np.array([shard.first_sample for shard in self.shards], np.int64)

    def batch(self, samples: npt.NDArray[np.int64] | Sequence[int]) -> PackedSequenceBatch:
        """The rows of `samples`, in that order; raises UnknownSample for a number that the split does not have."""
        wanted = np.ascontiguousarray(samples, np.int64)
        if wanted.ndim != 1 or len(wanted) == 0:
            raise CorpusError(f"expected a list of at least one sample, seen shape {wanted.shape}")
        if wanted.view(np.uint64).max() >= self.sequences:  # as unsigned, what is negative is vast
            raise UnknownSample(f"samples {wanted.min()} to {wanted.max()}: this split has 0 to {self.sequences - 1}")
        tokens = np.empty((len(wanted), self.context + 1), np.int32)
        lengths = np.empty(len(wanted), np.int64)
        packed = np.full(len(wanted), self.packed)
        places = np.arange(len(wanted))
        if len(self.shards) == 1:
            found = _fill(self.shards[0], wanted, places, tokens, lengths)
            return PackedSequenceBatch(tokens, lengths, found, packed)
        owner = self._firsts.searchsorted(wanted, side="right") - 1
        boundaries = []
        for index in set(owner.tolist()):
            mine = owner == index
            boundaries.append(_fill(self.shards[index], wanted[mine], places[mine], tokens, lengths))
        merged = np.concatenate(boundaries)
        merged.sort()
        return PackedSequenceBatch(tokens, lengths, merged, packed)


def _common(header: Header) -> tuple[int, int, int, bool]:
    """What all shards of a split share."""
    return header.context, header.vocabulary, header.eos, header.packed


def _fill(
    shard: TokenShard,
    wanted: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Write the rows of one shard into their places of `tokens` and `lengths`; the boundaries in them.

    A document that begins on a row's first token is no boundary.
    """
    context, rows = shard.header.context, len(wanted)
    local = wanted - shard.first_sample
    tokens[places] = shard.rows[local]
    begins = local * shard.header.stride
    lengths[places] = present = shard.present(local)
    found = shard.starts.searchsorted(np.concatenate((begins + 1, begins + present)))
    first = found[:rows]
    count = found[rows:] - first
    before = count.cumsum()
    total = int(before[-1])
    before -= count
    document = np.arange(total) + (first - before).repeat(count)
    boundaries: npt.NDArray[np.int64] = shard.starts[document] + (places * (context + 1) - begins).repeat(count)
    return boundaries
