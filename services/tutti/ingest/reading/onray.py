"""Batches on a Ray cluster: documents are made wherever it has a core for them, and come back in their order.

Promises: nothing of Ray is imported before batches come. This process reads records and keeps documents, and memory
holds a few batches a core. A node with another version of the logic is refused: it might make others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tutti.ingest.quality import measures
from tutti.ingest.quality.findings import Kind
from tutti.ingest.reading.batches import Batch, BatchResult, make
from tutti.ingest.reading.shards import LOGIC_VERSION
from tutti.ingest.settings import IngestSettings
from tutti.platform import cluster

if TYPE_CHECKING:
    import ray

AHEAD = 2
"""Batches that are given to each core: one is there before it asks."""


class UnfitNode(Exception):
    """A node of the cluster is not fit to make documents."""


def lacking(settings: IngestSettings) -> str:
    """A message about what this machine lacks to use a cluster, and how to get it; "" if nothing."""
    if lacks := cluster.uninstalled("ingest", "ray"):
        return lacks
    return "" if settings.ray else "no cluster is known where ingest runs: set ingest.ray"


def made(
    read: Iterator[Batch], mask: Collection[Kind], address: str, models: measures.Models = ()
) -> Iterator[BatchResult]:
    """Process batches on the cluster with this head, and yield their results.

    Raises what reading raises, UnfitNode and ClusterUnreachable.
    """
    room = AHEAD * cluster.join(address, "ingest.ray")
    import ray

    work = ray.remote(_make)
    scores = ray.put(measures.held(models))
    waiting: deque[ray.ObjectRef[BatchResult]] = deque()
    for batch in read:
        waiting.append(work.remote(LOGIC_VERSION, batch, mask, scores))
        if len(waiting) >= room:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _result(given: ray.ObjectRef[BatchResult]) -> BatchResult:
    import ray

    try:
        return ray.get(given)
    except ray.exceptions.RayTaskError as error:
        raise cluster.cause(error) from None


def _make(version: str, batch: Batch, mask: Collection[Kind], models: measures.Models) -> BatchResult:
    if version != LOGIC_VERSION:
        raise UnfitNode(
            f"a node of the cluster has version {LOGIC_VERSION} of ingest, expected {version}: install on it the tutti "
            "that runs ingest"
        )
    return make(batch, mask, models)
