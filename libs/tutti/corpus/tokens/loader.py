"""The loader: samples of a split, by number, from token shards on local disk.

A gather copies each row once out of the page cache, by a kernel (gather.c) or its twin in numpy; it keeps no state, so
any rank may ask for any sample.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from tutti.corpus.tokens.batch import PackedSequenceBatch
from tutti.corpus.tokens.tokenshard import Header, TokenShard
from tutti.native.arrays import np, npt
from tutti.native.native import Kernel, kernel
from tutti.records.errors import CorpusError, UnknownSample

SOURCE = Path(__file__).with_name("gather.c")
Numbers: TypeAlias = "npt.NDArray[np.int64]"
Gathered: TypeAlias = "tuple[npt.NDArray[np.int32], Numbers, Numbers]"
"""Tokens, lengths and boundaries, as a PackedSequenceBatch has them."""


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
        self.firsts = np.array([shard.first_sample for shard in self.shards], np.int64)

    def batch(self, samples: npt.NDArray[np.int64] | Sequence[int]) -> PackedSequenceBatch:
        """The rows of `samples`, in that order; raises UnknownSample for a number that the split does not have."""
        wanted = np.ascontiguousarray(samples, np.int64)
        if wanted.ndim != 1 or len(wanted) == 0:
            raise CorpusError(f"expected a list of at least one sample, seen shape {wanted.shape}")
        if wanted.view(np.uint64).max() >= self.sequences:  # as unsigned, what is negative is vast
            raise UnknownSample(f"samples {wanted.min()} to {wanted.max()}: this split has 0 to {self.sequences - 1}")
        library = native().library
        gathered = by_numpy(self, wanted) if library is None else by_kernel(library, self, wanted)
        return PackedSequenceBatch(*gathered, np.full(len(wanted), self.packed))

    @cached_property
    def table(self) -> Numbers:
        """int64 [shards, 6]: what the kernel knows of each shard, with the addresses of its mapped arrays."""
        return np.array(
            [
                (
                    shard.tokens.ctypes.data,
                    shard.starts.ctypes.data,
                    0 if shard.lengths is None else shard.lengths.ctypes.data,
                    shard.header.documents,
                    shard.first_sample,
                    shard.header.tokens_used,
                )
                for shard in self.shards
            ],
            np.int64,
        )


def native() -> Kernel:
    """gather.c, or why there is none here; it costs time alone."""
    return kernel(SOURCE)


def by_kernel(library: ctypes.CDLL, loader: Loader, wanted: Numbers) -> Gathered:
    header, rows, width = loader.shards[0].header, len(wanted), loader.context + 1
    tokens, lengths = np.empty((rows, width), np.int32), np.empty(rows, np.int64)
    boundaries = np.empty(tokens.size, np.int64)  # what is not written is never resident
    gather = library.gather
    gather.restype = ctypes.c_int64
    found = gather(
        ctypes.c_void_p(loader.table.ctypes.data),
        *map(ctypes.c_int64, (len(loader.shards), header.token_bytes, width, header.stride)),
        ctypes.c_void_p(wanted.ctypes.data),
        ctypes.c_int64(rows),
        *(ctypes.c_void_p(each.ctypes.data) for each in (tokens, lengths, boundaries)),
    )
    return tokens, lengths, boundaries[:found]


def by_numpy(loader: Loader, wanted: Numbers) -> Gathered:
    tokens, lengths = np.empty((len(wanted), loader.context + 1), np.int32), np.empty(len(wanted), np.int64)
    places, owner = np.arange(len(wanted)), loader.firsts.searchsorted(wanted, side="right") - 1
    boundaries = []
    for index in np.unique(owner).tolist():
        mine = owner == index
        boundaries.append(_fill(loader.shards[index], wanted[mine], places[mine], tokens, lengths))
    merged = np.concatenate(boundaries)
    merged.sort()
    return tokens, lengths, merged


def _common(header: Header) -> tuple[int, int, int, bool]:
    """The properties that all shards of a split share."""
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
