"""Which documents of a set of shards are duplicates, exact and near, as the file that says who stands for whom."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.corpus import duplicates
from tutti.corpus.duplicates import How
from tutti.dedup.exact import ExactDuplicates, exact_duplicates
from tutti.dedup.near import NEAR_VERSION, near_duplicates
from tutti.dedup.shards import reader

LOGIC_VERSION = f"dedup-2.{NEAR_VERSION}"
ROWS = 1 << 15

Stands = dict[str, tuple[str, How, float]]
"""By dropped document: the one that stands for it, why, and how similar its closest link is."""


@dataclass(frozen=True, slots=True)
class Found:
    """`path` is the file (tutti.corpus.duplicates); of the `duplicates` that were dropped `near` were no exact ones."""

    path: Path
    documents: int
    duplicates: int
    near: int
    clusters: int


def find(shards: Sequence[Path], rejected: frozenset[str], near: float, scratch: Path) -> Found:
    """Compare the documents of local shard files, but those that are rejected already.

    `near` is the similarity of near-duplicates, 0 for exact ones alone; only those need the texts, which are never held
    together. `scratch` is an empty folder.
    """
    exact = exact_duplicates(
        pair
        for path in shards
        for batch in pq.ParquetFile(path).iter_batches(columns=["doc_id", "text_digest"])  # type: ignore[no-untyped-call]
        for pair in zip(batch["doc_id"].to_pylist(), batch["text_digest"].to_pylist(), strict=True)
        if pair[0] not in rejected
    )
    without = rejected | {doc_id for cluster in exact.clusters for doc_id in cluster.dropped}
    stands = through(exact, _near(shards, without, near, scratch) if near else {})
    path = scratch / "clusters.parquet"
    duplicates.write(_rows(stands), path)
    return Found(
        path,
        documents=len(exact.kept) + exact.dropped - len(stands),
        duplicates=len(stands),
        near=sum(how is How.NEAR for _, how, _ in stands.values()),
        clusters=len({kept for kept, _, _ in stands.values()}),
    )


def through(exact: ExactDuplicates, near: Stands) -> Stands:
    """Both together: who stood for equal texts and was dropped later is stood for by another, and so are they."""
    found = dict(near)
    for cluster in exact.clusters:
        kept = near[cluster.kept][0] if cluster.kept in near else cluster.kept
        found |= {doc_id: (kept, How.EXACT, 1.0) for doc_id in cluster.dropped}
    return found


def _near(shards: Sequence[Path], without: frozenset[str], threshold: float, scratch: Path) -> Stands:
    folder = scratch / "near"
    folder.mkdir()
    found: Stands = {}
    rows = near_duplicates(
        reader(shards, without=without), folder, threshold=threshold, workers=len(os.sched_getaffinity(0))
    )
    for batch in rows:
        for doc_id, kept, jaccard in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if doc_id != kept:
                found[doc_id] = (kept, How.NEAR, jaccard)
    return found


def _rows(stands: Stands) -> Iterator[pa.RecordBatch]:
    ids = sorted(stands)
    for begin in range(0, len(ids), ROWS):
        part = ids[begin : begin + ROWS]
        kept, how, jaccard = zip(*(stands[doc_id] for doc_id in part), strict=True)
        columns = (part, kept, [each.value for each in how], jaccard)
        yield pa.record_batch([pa.array(column) for column in columns], schema=duplicates.SCHEMA)
