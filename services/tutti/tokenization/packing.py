"""Packing: documents become two streams of tokens, cut into shards.

Split and order follow from keyed hashes of doc_id alone: another document changes neither the split nor the relative
order of those that were there (but for the one document that either split must have).  A stream is `eos`, then every
document with `eos` behind it, so each token of a document is a target exactly once; only the last sequence is padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.corpus.canonical import keyed_bytes
from tutti.corpus.tokenshard import TokenRun

PACKING_VERSION = 1
_SCALE = 1 << 64


class PackingError(Exception):
    """Documents can't be split or packed as asked."""


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """The documents of either split, each in the order in which they are packed."""

    train: tuple[str, ...]
    validation: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenStream:
    """`tokens`: uint32, padded to sequences * context + 1; `starts[k]`: where document `doc_ids[k]` begins.

    The first document begins at 0, with the `eos` before it.
    """

    tokens: npt.NDArray[np.uint32]
    tokens_used: int
    starts: npt.NDArray[np.int64]
    doc_ids: tuple[str, ...]
    context: int

    @property
    def sequences(self) -> int:
        return (len(self.tokens) - 1) // self.context

    @property
    def targets(self) -> int:
        """How many tokens are predicted: all but the first and the padding."""
        return self.tokens_used - 1

    @property
    def padding(self) -> int:
        return len(self.tokens) - self.tokens_used


def split_documents(doc_ids: Iterable[str], *, validation_fraction: float, key: str) -> DocumentSplit:
    """Split by document; both splits get at least one document, where there are two.

    Raises PackingError for fewer than two documents, or a fraction that is not between 0 and 1.
    """
    if not 0 < validation_fraction < 1:
        raise PackingError(f"validation_fraction is {validation_fraction}, expected a number between 0 and 1")
    draws = sorted((_draw("validation split", key, doc_id), doc_id) for doc_id in set(doc_ids))
    if len(draws) < 2:
        raise PackingError(f"{len(draws)} documents: expected at least 2, one to train on and one to validate on")
    limit = int(validation_fraction * _SCALE)
    count = sum(1 for draw, _ in draws if draw < limit)
    count = min(max(count, 1), len(draws) - 1)
    return DocumentSplit(
        train=_shuffled((doc_id for _, doc_id in draws[count:]), key),
        validation=_shuffled((doc_id for _, doc_id in draws[:count]), key),
    )


def _draw(kind: str, key: str, doc_id: str) -> int:
    return int.from_bytes(keyed_bytes(kind, key.encode(), doc_id.encode())[:8], "little")


def _shuffled(doc_ids: Iterable[str], key: str) -> tuple[str, ...]:
    return tuple(sorted(doc_ids, key=lambda doc_id: (_draw("packing order", key, doc_id), doc_id)))


def pack(documents: Iterable[tuple[str, npt.NDArray[np.uint32]]], *, context: int, eos: int) -> TokenStream:
    """Pack (doc_id, ids without eos), in the order given, into sequences of `context` targets."""
    if context < 1:
        raise PackingError(f"context is {context}, expected at least 1")
    end = np.array([eos], np.uint32)
    pieces, starts, doc_ids, used = [end], [], [], 1
    for doc_id, ids in documents:
        starts.append(used)
        doc_ids.append(doc_id)
        pieces += [ids, end]
        used += len(ids) + 1
    if not doc_ids:
        raise PackingError("no document to pack")
    starts[0] = 0
    sequences = -(-(used - 1) // context)
    pieces.append(np.full(sequences * context + 1 - used, eos, np.uint32))
    return TokenStream(np.concatenate(pieces), used, np.array(starts, np.int64), tuple(doc_ids), context)


def cut(stream: TokenStream, *, sequences_per_shard: int, vocabulary: int, eos: int) -> Iterator[TokenRun]:
    """The stream as runs for token shards; a document that lies across a cut is listed in both."""
    if sequences_per_shard < 1:
        raise PackingError(f"sequences_per_shard is {sequences_per_shard}, expected at least 1")
    for first in range(0, stream.sequences, sequences_per_shard):
        sequences = min(sequences_per_shard, stream.sequences - first)
        begin, end = first * stream.context, (first + sequences) * stream.context + 1
        used = min(end, stream.tokens_used) - begin
        low = int(np.searchsorted(stream.starts, begin, side="right")) - 1
        high = int(np.searchsorted(stream.starts, begin + used, side="left"))
        yield TokenRun(
            tokens=stream.tokens[begin:end],
            tokens_used=used,
            starts=np.maximum(stream.starts[low:high] - begin, 0),
            doc_ids=stream.doc_ids[low:high],
            context=stream.context,
            vocabulary=vocabulary,
            eos=eos,
            first_sample=first,
        )
