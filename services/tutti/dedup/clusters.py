"""Which documents of a set of shards are duplicates, as a blob that says who stands for whom."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tutti.corpus.canonical import canonical_json
from tutti.dedup.exact import Cluster, ExactDuplicates, exact_duplicates

LOGIC_VERSION = "dedup-exact-1"


def find(shards: Sequence[Path]) -> ExactDuplicates:
    """Cluster the documents of local shard files; reads names and digests, never texts."""
    return exact_duplicates(
        pair
        for path in shards
        for batch in pq.ParquetFile(path).iter_batches(columns=["doc_id", "text_digest"])  # type: ignore[no-untyped-call]
        for pair in zip(batch["doc_id"].to_pylist(), batch["text_digest"].to_pylist(), strict=True)
    )


def encode(found: ExactDuplicates) -> bytes:
    """The clusters as canonical JSON: `[{"dropped": [...], "kept": ..., "text_digest": ...}]`."""
    return canonical_json(
        [
            {"dropped": list(cluster.dropped), "kept": cluster.kept, "text_digest": cluster.text_digest}
            for cluster in found.clusters
        ]
    )


def decode(data: bytes) -> list[Cluster]:
    return [Cluster(item["kept"], tuple(item["dropped"]), item["text_digest"]) for item in json.loads(data)]
