"""Packing: where each document lies in the stream of tokens of its split.

Split and order follow from keyed hashes of doc_id alone: another document changes neither the split nor the relative
order of those that were there (but for the one document that either split must have).  A stream begins with `eos`, and
every document has `eos` behind it, so each token of a document is a target exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.native.arrays import np, npt
from tutti.records.canonical import framed, hasher
from tutti.tokenization.documents import Ids, Numbers, as_names

PACKING_VERSION = 1
_SCALE = 1 << 64


class PackingError(Exception):
    """Documents can't be split or packed as asked."""


@dataclass(frozen=True, slots=True)
class DocumentSplit:
    """The numbers of the documents of either split, each in the order in which they are packed."""

    train: Numbers
    validation: Numbers


@dataclass(frozen=True, slots=True)
class Layout:
    """A stream of `sequences` * `context` + 1 tokens: document `documents[k]` has its first token at `begins[k]`.

    What no document and no `eos` behind one takes up is padding; from `tokens_used` on all is.
    """

    documents: Numbers
    begins: Numbers
    tokens_used: int
    context: int

    @property
    def sequences(self) -> int:
        return -(-(self.tokens_used - 1) // self.context)

    @property
    def tokens(self) -> int:
        return self.sequences * self.context + 1

    @property
    def targets(self) -> int:
        """The number of predicted tokens: all except the first and the padding."""
        return self.tokens_used - 1


@dataclass(frozen=True, slots=True)
class Cut:
    """A run of a layout that becomes a token shard: its documents are `layout.documents[low:high]`.

    `starts[k]`: where they begin in the run, the first at 0; one that lies across a cut is in both runs.
    """

    first_sample: int
    sequences: int
    tokens_used: int
    low: int
    high: int
    starts: Numbers


def split_documents(ids: Ids, *, validation_fraction: float, key: str) -> DocumentSplit:
    """Split documents, whose ids are sorted; both splits get at least one, where there are two.

    Raises PackingError for fewer than two documents, or a fraction that is not between 0 and 1.
    """
    if not 0 < validation_fraction < 1:
        raise PackingError(f"validation_fraction is {validation_fraction}, expected a number between 0 and 1")
    if len(ids) < 2:
        raise PackingError(f"{len(ids)} documents: expected at least 2, one to train on and one to validate on")
    drawn = draws("validation split", key, ids)
    count = int((drawn < np.uint64(int(validation_fraction * _SCALE))).sum())
    count = min(max(count, 1), len(ids) - 1)
    held_out = np.zeros(len(ids), np.bool_)
    held_out[np.argsort(drawn, kind="stable")[:count]] = True
    order = np.argsort(draws("packing order", key, ids), kind="stable")
    return DocumentSplit(train=order[~held_out[order]], validation=order[held_out[order]])


def draws(kind: str, key: str, ids: Ids) -> npt.NDArray[np.uint64]:
    """A number below 2^64 for each document, by its id alone."""
    begun = framed(hasher(kind), (key.encode(),))
    found = (framed(begun.copy(), (name.encode(),)).digest(8) for name in as_names(ids))
    return np.frombuffer(b"".join(found), "<u8")


def concatenated(documents: Numbers, lengths: Numbers, *, context: int) -> Layout:
    """Documents one behind the other, the last sequence padded; `lengths[k]`: tokens of document `documents[k]`."""
    if context < 1:
        raise PackingError(f"context is {context}, expected at least 1")
    if not len(documents):
        raise PackingError("no document to pack")
    ends = np.cumsum(lengths + 1) + 1
    return Layout(documents, np.concatenate([[1], ends[:-1]]), int(ends[-1]), context)


def cuts(layout: Layout, *, sequences_per_shard: int) -> Iterator[Cut]:
    """The runs of a layout, one a shard."""
    if sequences_per_shard < 1:
        raise PackingError(f"sequences_per_shard is {sequences_per_shard}, expected at least 1")
    for first in range(0, layout.sequences, sequences_per_shard):
        sequences = min(sequences_per_shard, layout.sequences - first)
        begin = first * layout.context
        used = min(begin + sequences * layout.context + 1, layout.tokens_used) - begin
        low = max(int(np.searchsorted(layout.begins, begin, side="right")) - 1, 0)
        high = int(np.searchsorted(layout.begins, begin + used, side="left"))
        starts = np.maximum(layout.begins[low:high] - begin, 0)
        starts[0] = 0  # the `eos` before the first document of a stream is taken for a part of it
        yield Cut(first, sequences, used, low, high, starts)
