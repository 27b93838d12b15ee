"""Duplicates on a Ray cluster: the same file as `clusters.find` makes, of document shards that the nodes read.

Promises: nothing of Daft or Ray is imported before a search begins. The texts never come here; what is dropped does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tutti.chassis import cluster
from tutti.corpus.stages import DocumentShardEntry
from tutti.dedup.clusters import Found, written
from tutti.dedup.components import Documents
from tutti.dedup.names import Names
from tutti.dedup.near import alone
from tutti.dedup.plan import Duplicates, duplicates
from tutti.dedup.reading import SHARDS, Reading, named
from tutti.dedup.settings import DedupSettings
from tutti.dedup.standing import OWN, Standing

if TYPE_CHECKING:
    from tutti.dedup.engine import Engine

BUCKET_DOCUMENTS = 1 << 16
"""Documents of a bucket: their bands, the largest rows, take about 75 MB."""


def lacking(settings: DedupSettings) -> str:
    """What this place lacks to use a cluster, and how to get it; "" for nothing."""
    if lacks := cluster.uninstalled("dedup", "daft", "ray"):
        return lacks
    if not (settings.ray and settings.ray_blobs):
        return "no cluster is known where dedup runs: set dedup.ray and dedup.ray_blobs"
    return ""


def find(
    settings: DedupSettings, shards: Sequence[DocumentShardEntry], rejected: frozenset[str], near: float, scratch: Path
) -> Found:
    """`search` on the cluster of the settings. Raises ClusterUnreachable too."""
    from tutti.dedup.engine import Engine, join  # what they import need not be installed

    cores = join(settings.ray)
    documents = sum(shard.info.documents for shard in shards)
    engine = Engine(buckets=max(2 * cores, documents // BUCKET_DOCUMENTS))
    return search(
        engine, settings.ray_blobs, [(each.blob, each.info.bytes_digest) for each in shards], rejected, near, scratch
    )


def search(
    engine: Engine,
    blobs: str,
    shards: Sequence[tuple[str, str]],
    rejected: frozenset[str],
    near: float,
    scratch: Path,
) -> Found:
    """What `clusters.find` finds in shards, each a blob and the digest of its bytes; `blobs` as the nodes reach them.

    Raises Unreadable and ConflictingDocument.
    """
    keys, digests = zip(*shards, strict=True) if shards else ((), ())
    places = pa.table([range(len(keys)), keys, digests], schema=SHARDS)
    without = pa.table({"doc": named(pa.array(sorted(rejected), pa.string()))})
    found = duplicates(engine, Reading(blobs), places, without, near)
    return written(standing(found), found.documents, scratch)


def standing(found: Duplicates) -> Standing:
    """By document what stands for it, of both kinds."""
    names = Names(map(_own, (found.exact["doc"], found.exact["kept"], found.near["doc"], found.near["kept"])))

    def numbers(ids: pa.ChunkedArray) -> Documents:
        return names.documents(_own(ids))

    equal, near = np.arange(len(names)), alone(len(names))
    equal[numbers(found.exact["doc"])] = numbers(found.exact["kept"])
    close = numbers(found.near["doc"])
    near.roots[close] = numbers(found.near["kept"])
    near.closest[close] = found.near["jaccard"].to_numpy()
    return Standing.through(names, equal, near)


def _own(ids: pa.ChunkedArray) -> pa.Array:
    return pa.array([OWN + each.hex() for each in ids.to_pylist()], pa.string())
