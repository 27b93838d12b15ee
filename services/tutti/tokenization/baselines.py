"""Baselines: what simple predictors make of the validation split, given the training split.

All in bits per byte of the validation text, so that tokenizers compare, and rounded to four decimals.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.tokenization.packing import TokenStream

DISCOUNT = 0.75
MAX_PRIMING_BYTES = 16 << 20
MAX_DICTIONARY = 32 << 20  # xz takes about twelve times as much memory
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
    """What is predicted from what; `validation_bytes`: UTF-8 bytes of the validation documents."""

    train: TokenStream
    validation: TokenStream
    vocabulary: int
    validation_bytes: int

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        return self.train.tokens[: self.train.tokens_used].astype(np.int64)

    @property
    def asked(self) -> npt.NDArray[np.int64]:
        return self.validation.tokens[: self.validation.tokens_used].astype(np.int64)


def unigram_bits_per_byte(streams: Streams) -> float:
    """Token frequencies of the training split, one added to each."""
    counts = np.bincount(streams.seen[1:], minlength=streams.vocabulary) + 1.0
    return _bits_per_byte(counts[streams.asked[1:]] / counts.sum(), streams)


def kneser_ney_bits_per_byte(streams: Streams, *, discount: float = DISCOUNT) -> float:
    """Interpolated Kneser-Ney bigram (Chen and Goodman 1998, section 2.7).

    The continuation distribution is discounted too, and interpolated with the uniform one: nothing is impossible.
    """
    size, seen, asked = streams.vocabulary, streams.seen, streams.asked
    pairs, pair_counts = np.unique(seen[:-1] * size + seen[1:], return_counts=True)
    first, second = np.divmod(pairs, size)
    history = np.bincount(first, weights=pair_counts, minlength=size)
    followers = np.bincount(first, minlength=size)
    preceders = np.bincount(second, minlength=size)
    kinds = len(pairs)
    continuation = (np.maximum(preceders - discount, 0) + discount * np.count_nonzero(preceders) / size) / kinds

    before, after = asked[:-1], asked[1:]
    wanted = before * size + after
    at = np.minimum(np.searchsorted(pairs, wanted), kinds - 1)
    count = np.where(pairs[at] == wanted, pair_counts[at], 0)
    known = history[before] > 0
    total = np.where(known, history[before], 1)
    direct = np.where(known, np.maximum(count - discount, 0) / total, 0)
    backoff = np.where(known, discount * followers[before] / total, 1)
    return _bits_per_byte(direct + backoff * continuation[after], streams)


def xz_bits_per_byte(train: Sequence[str], validation: Sequence[str]) -> float:
    """What the validation texts add to the xz file of the training texts (`xz -9e`).

    The dictionary holds both, up to 32 MiB; of more than 16 MiB of training text the last 16 MiB prime.
    """
    head = "\n".join(train).encode()[-MAX_PRIMING_BYTES:] + b"\n"
    tail = "\n".join(validation).encode()
    size = min(max(_MIN_DICTIONARY, len(head) + len(tail)), MAX_DICTIONARY)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size}]
    alone, both = (len(lzma.compress(data, lzma.FORMAT_XZ, filters=filters)) for data in (head, head + tail))
    return round(8 * (both - alone) / sum(len(text.encode()) for text in validation), DECIMALS)


def _bits_per_byte(probabilities: npt.NDArray[np.float64], streams: Streams) -> float:
    return round(float(-np.log2(probabilities).sum()) / streams.validation_bytes, DECIMALS)
