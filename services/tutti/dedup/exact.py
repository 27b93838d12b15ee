"""Exact duplicates: of documents with the same text, the smallest id stays.

The answer is a function of the set of documents, whatever their order. Memory is 24 bytes a document beside their
names, and what is equal. Documents are read twice: for 64 bits of each text's digest, and for the digests of those that
share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.dedup.names import Names, letters
from tutti.dedup.shards import Reader
from tutti.dedup.shingles import ODD, mix

_COLUMNS = ("doc_id", "text_digest")


class ConflictingDocument(Exception):
    """One doc_id came with two texts: an input is damaged."""


@dataclass(frozen=True, slots=True, order=True)
class Cluster:
    """Documents with one text: `kept` and what it stands for, sorted."""

    kept: str
    dropped: tuple[str, ...]
    text_digest: str


Clusters = Sequence[Cluster]
"""The texts that came more than once, by kept id."""


def exact_duplicates(read: Reader, names: Names) -> Clusters:
    """Cluster the documents of `read` by `text_digest`; `names` has all of them. Raises ConflictingDocument."""
    several = _several(read, names)
    holders: dict[str, set[str]] = {}
    for batch in read(_COLUMNS):
        some = batch.take(pa.array(np.flatnonzero(several[names.documents(batch["doc_id"])])))
        for doc_id, digest in zip(*(some[column].to_pylist() for column in _COLUMNS), strict=True):
            holders.setdefault(digest, set()).add(doc_id)
    found = ((sorted(ids), digest) for digest, ids in holders.items() if len(ids) > 1)
    return sorted(Cluster(kept, tuple(dropped), digest) for (kept, *dropped), digest in found)


def _several(read: Reader, names: Names) -> npt.NDArray[np.bool_]:
    """Which documents may have the text of another."""
    marks, seen = np.zeros(len(names), np.uint64), np.zeros(len(names), np.bool_)
    for batch in read(_COLUMNS):
        documents, found = names.documents(batch["doc_id"]), _marks(batch["text_digest"])
        other = seen[documents] & (marks[documents] != found)
        marks[documents] = found
        other |= marks[documents] != found
        if other.any():
            doc_id = batch["doc_id"][int(other.argmax())].as_py()
            raise ConflictingDocument(f"document {doc_id} has two texts; read its shards again")
        seen[documents] = True
    order = np.argsort(marks)
    alike = np.flatnonzero(marks[order[1:]] == marks[order[:-1]])
    several = np.zeros(len(names), np.bool_)
    several[order[alike]] = several[order[alike + 1]] = True
    return several


def _marks(digests: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each digest, the same for the same, and very likely another for another."""
    given = letters(digests)
    eights = -(-given.itemsize // 8)
    found = np.zeros(len(given), np.uint64)
    for column in given.astype(f"S{8 * eights}").view(np.uint64).reshape(len(given), eights).T:
        found = np.where(column == 0, found, mix(found * np.uint64(ODD) ^ column))
    return found
