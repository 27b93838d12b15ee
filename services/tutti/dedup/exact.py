"""Exact duplicates: of documents with the same text, the smallest id stays.

The answer is a function of the set of documents, whatever their order. Memory is 24 bytes a document beside their
names, and some 90 for each of those that share a text. Documents are read twice: for 64 bits of each text's digest, and
for the digests of those that share them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.dedup.components import Documents
from tutti.dedup.names import Names, letters
from tutti.dedup.shards import Reader
from tutti.dedup.shingles import ODD, mix

_COLUMNS = ("doc_id", "text_digest")


class ConflictingDocument(Exception):
    """One doc_id came with two texts: an input is damaged."""


def exact_duplicates(read: Reader, names: Names) -> Documents:
    """For each document the first with the same `text_digest`, int64 [documents]; `names` has all of them.

    Raises ConflictingDocument.
    """
    several = _several(read, names)
    documents, digests = [np.zeros(0, np.int64)], [np.zeros(0, "S1")]
    for batch in read(_COLUMNS):
        found = names.documents(batch["doc_id"])
        some = several[found]
        documents.append(found[some])
        digests.append(letters(batch["text_digest"].filter(pa.array(some))))
    first = np.arange(len(names))
    held = np.concatenate(documents)
    order = np.argsort(texts := np.concatenate(digests), kind="stable")
    starts = np.flatnonzero(np.append(True, texts[order[1:]] != texts[order[:-1]])) if len(order) else order
    first[held[order]] = np.repeat(np.minimum.reduceat(held[order], starts), np.diff(starts, append=len(order)))
    return first


def _several(read: Reader, names: Names) -> npt.NDArray[np.bool_]:
    """Documents that may have the same text as another."""
    marks, seen = np.zeros(len(names), np.uint64), np.zeros(len(names), np.bool_)
    for batch in read(_COLUMNS):
        documents, found = names.documents(batch["doc_id"]), _marks(batch["text_digest"])
        other = seen[documents] & (marks[documents] != found)
        marks[documents] = found
        other |= marks[documents] != found
        if other.any():
            doc_id = batch["doc_id"][int(other.argmax())].as_py()[1:]  # behind the letter of its part
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
