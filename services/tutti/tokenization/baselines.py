"""Baselines: what simple predictors make of the validation split, given the training split.

All in bits per byte of the validation text, so that tokenizers compare, and rounded to four decimals. They are measured
on the beginnings of both splits, whose order follows from keyed hashes: SEEN_TOKENS and ASKED_TOKENS at most.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.corpus.threads import in_threads
from tutti.native.arrays import np, npt

DISCOUNT = 0.75
SEEN_TOKENS, ASKED_TOKENS = 4 << 20, 1 << 20
MAX_PRIMING_BYTES, MAX_ASKED_BYTES = 4 << 20, 1 << 20
DECIMALS = 4
_MIN_DICTIONARY = 1 << 16


@dataclass(frozen=True, slots=True)
class Baselines:
    """Bits per byte of the validation split under three predictors that were given the training split."""

    unigram: float
    kneser_ney_bigram: float
    xz_primed: float


@dataclass(frozen=True, slots=True)
class Streams:
    """The token streams of the baselines: ids; all `asked` except the first stand for `asked_bytes` of text."""

    seen: npt.NDArray[np.integer]
    asked: npt.NDArray[np.integer]
    vocabulary: int
    asked_bytes: int


def unigram_bits_per_byte(streams: Streams) -> float:
    """Token frequencies of the training split, one added to each."""
    counts = np.bincount(streams.seen[1:], minlength=streams.vocabulary) + 1.0
    return _bits_per_byte(counts[streams.asked[1:]] / counts.sum(), streams)


def kneser_ney_bits_per_byte(streams: Streams, *, discount: float = DISCOUNT) -> float:
    """Interpolated Kneser-Ney bigram (Chen and Goodman 1998, section 2.7).

    The continuation distribution is discounted too, and interpolated with the uniform one: nothing is impossible.
    """
    size, seen, asked = streams.vocabulary, streams.seen, streams.asked
    row = np.uint32(size) if size <= 1 << 16 else np.int64(size)  # half the memory, and sorted sooner
    pairs, pair_counts = np.unique(seen[:-1] * row + seen[1:], return_counts=True)
    first, second = np.divmod(pairs, row)
    history = np.bincount(first, weights=pair_counts, minlength=size)
    followers = np.bincount(first, minlength=size)
    preceders = np.bincount(second, minlength=size)
    kinds = len(pairs)
    continuation = (np.maximum(preceders - discount, 0) + discount * np.count_nonzero(preceders) / size) / kinds

    before, after = asked[:-1], asked[1:]
    wanted = before * row + after
    at = np.minimum(np.searchsorted(pairs, wanted), kinds - 1)
    count = np.where(pairs[at] == wanted, pair_counts[at], 0)
    known = history[before] > 0
    total = np.where(known, history[before], 1)
    direct = np.where(known, np.maximum(count - discount, 0) / total, 0)
    backoff = np.where(known, discount * followers[before] / total, 1)
    return _bits_per_byte(direct + backoff * continuation[after], streams)


def xz_bits_per_byte(train: Sequence[bytes], validation: Sequence[bytes], *, workers: int = 1) -> float:
    """The bits per byte that the validation texts add to the xz file of the training texts (`xz -9e`), with so many
    threads.

    The dictionary holds both; of more than 4 MiB of training text the last 4 MiB prime, of more than 1 MiB of
    validation text the first 1 MiB is asked for.
    """
    head = b"\n".join(train)[-MAX_PRIMING_BYTES:] + b"\n"
    tail = b"\n".join(validation)[:MAX_ASKED_BYTES]
    asked = min(sum(map(len, validation)), len(tail))
    size = max(_MIN_DICTIONARY, len(head) + len(tail))  # xz takes about twelve times as much memory
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size}]

    def compressed(data: bytes) -> int:
        return len(lzma.compress(data, lzma.FORMAT_XZ, filters=filters))

    alone, both = in_threads(compressed, (head, head + tail), workers)
    return round(8 * (both - alone) / asked, DECIMALS)


def _bits_per_byte(probabilities: npt.NDArray[np.float64], streams: Streams) -> float:
    return round(float(-np.log2(probabilities).sum()) / streams.asked_bytes, DECIMALS)
