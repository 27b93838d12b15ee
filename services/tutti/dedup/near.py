"""Near-duplicates: of documents that say nearly the same, the one with the smallest id stays.

Shared bands make candidates, candidates make components, the pairs of a component are verified exactly, and what is
similar enough is one cluster, directly or through others. Promises: the answer is a function of the set of documents,
whatever their files, order and workers. Memory does not grow with the texts; it is about 60 bytes a document beside
their names, and the longest text. Documents are read twice: all texts, and the texts of candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.threads import in_threads
from tutti.dedup.candidates import pairs
from tutti.dedup.components import Components, Documents
from tutti.dedup.minhash import BANDS, bands
from tutti.dedup.names import Names
from tutti.dedup.rows import RUN_ROWS, RowSorter
from tutti.dedup.shards import Reader
from tutti.dedup.verification import SetFile, sets, verified

THRESHOLD = 0.8
_LOWER = np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class Near:
    """For each document the smallest of its cluster, int64 [documents], and the similarity to that one; 0 for a
    document that is less similar to it than the threshold, and in the cluster through others.
    """

    roots: Documents
    similarity: npt.NDArray[np.float64]


def alone(documents: int) -> Near:
    """No document is near another."""
    return Near(np.arange(documents), np.zeros(documents))


def near_duplicates(
    read: Reader,
    names: Names,
    folder: Path,
    *,
    threshold: float = THRESHOLD,
    workers: int = 1,
    run_rows: int = RUN_ROWS,
) -> Near:
    """The clusters of the documents of `read`; `names` has all of them, and maybe others.

    `folder` is an empty one for what does not fit in memory: up to 1 KB a document and what the texts of candidates
    take. Raises UnreadableTexts, and ValueError for a threshold not above 0 and at most 1.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"a threshold of {threshold}; expected above 0 and at most 1")
    candidates = _by_component(_candidates(read, names, folder, workers, run_rows), len(names), folder, run_rows)
    links, similar = Components(len(names)), np.zeros(len(names))
    with closing(SetFile(folder / "sets", len(names))) as store:
        _store(read, names, candidates, store, workers)
        for left, right in _pairs(candidates):
            for a, b, _ in verified(store, left, right, threshold=threshold):
                links.join(a, b)
        roots = links.roots(np.arange(len(names)))
        dropped = np.flatnonzero(roots != np.arange(len(names)))
        dropped = dropped[np.argsort(roots[dropped], kind="stable")]
        for _, document, similarity in verified(store, roots[dropped], dropped, threshold=threshold):
            similar[document] = similarity
    return Near(roots, similar)


def _candidates(read: Reader, names: Names, folder: Path, workers: int, run_rows: int) -> RowSorter:
    """Rows (smaller document, larger document) that share a band."""

    def keys(batch: pa.RecordBatch) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        found = bands(batch["text"])
        some = found["shingles"].to_numpy() > 0
        documents = names.documents(batch["doc_id"])[some].astype(np.uint64)
        return found["bands"].flatten().to_numpy().reshape(-1, BANDS)[some].ravel(), np.repeat(documents, BANDS)

    held = RowSorter(folder / "bands", run_rows=run_rows)
    for first, second in in_threads(keys, read(["doc_id", "text"]), workers):
        held.add(first, second)
    found = RowSorter(folder / "pairs", run_rows=run_rows)
    for left, right in pairs(held.blocks()):
        found.add(left, right)
    held.remove()
    return found


def _by_component(candidates: RowSorter, count: int, folder: Path, run_rows: int) -> RowSorter:
    """Rows (component, smaller document · 2^32 + larger document)."""
    components = Components(count)
    for block in candidates.blocks():
        components.join(*block.astype(np.int64).T)
    ordered = RowSorter(folder / "components", run_rows=run_rows)
    for block in candidates.blocks():
        left, right = block.T
        ordered.add(components.roots(left.astype(np.int64)).astype(np.uint64), left << np.uint64(32) | right)
    candidates.remove()
    return ordered


def _pairs(ordered: RowSorter) -> Iterator[tuple[Documents, Documents]]:
    for block in ordered.blocks():
        yield (block[:, 1] >> np.uint64(32)).astype(np.int64), (block[:, 1] & _LOWER).astype(np.int64)


def _store(read: Reader, names: Names, candidates: RowSorter, store: SetFile, workers: int) -> None:
    """Keep the sets of all documents that are in a pair."""
    wanted = np.zeros(len(names), np.bool_)
    for side in (side for both in _pairs(candidates) for side in both):
        wanted[side] = True

    def made(batch: pa.RecordBatch) -> tuple[Documents, npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        documents = names.documents(batch["doc_id"])
        here = np.flatnonzero(wanted[documents])
        return documents[here], *sets(batch["text"].take(pa.array(here)))

    if wanted.any():
        for documents, members, offsets in in_threads(made, read(["doc_id", "text"]), workers):
            store.add(documents, members, offsets)
