"""Writing a rank's snapshot: digests in memory first, then the shard, then its report.

A report in the store therefore names bytes that are already there. Nothing is ever overwritten: the keys carry the
epoch, and the same snapshot stored twice is the same blob.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from tutti.checkpoints.digests import leaf_digest
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.report import ChunkEntry, ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.training import Training
from tutti.records.canonical import JsonValue, bytes_digest, named

if TYPE_CHECKING:
    from tutti.backbone.blobs import Blobs


@dataclass(frozen=True)
class Snapshot:
    """The properties of a snapshot besides its bytes. A loss that is not finite is recorded as none."""

    name: ShardName
    node: str
    shape: Shape
    training: Training
    kernel: Mapping[str, JsonValue]
    scalars: StateScalars
    loss: float | None = None
    bits_per_byte: float | None = None
    curve: bytes = b""


@dataclass(frozen=True)
class StoredShard:
    """A shard and its report that are in the blob store."""

    report_key: str
    report_digest: str
    nbytes: int


@functools.lru_cache(maxsize=8)
def plan_of(training: Training, shape: Shape) -> Plan:
    """The plan that a training has under a shape. Raises ShapeError."""
    return Plan(Layout(training.model), shape, training.step.leaves)


def describe(buffer: memoryview, snapshot: Snapshot, plan: Plan | None = None) -> ShardReport:
    """The report of a snapshot that lies in memory; nothing is copied, nothing is written."""
    plan = plan or plan_of(snapshot.training, snapshot.shape)
    rank, flat = snapshot.name.rank, buffer.cast("B")
    if flat.nbytes != plan.snapshot_size(rank):
        raise CheckpointError(
            f"the snapshot of {snapshot.name} has {flat.nbytes} bytes; expected {plan.snapshot_size(rank)}"
        )
    chunks = plan.layout.chunks
    return ShardReport(
        name=snapshot.name,
        node=snapshot.node,
        shape=snapshot.shape,
        training=snapshot.training.digest(),
        layout=plan.layout.digest,
        kernel=snapshot.kernel,
        nbytes=flat.nbytes,
        bytes_digest=named(blake3(flat)),
        scalars=snapshot.scalars,
        loss=_finite(snapshot.loss),
        bits_per_byte=_finite(snapshot.bits_per_byte),
        chunks=tuple(
            ChunkEntry(
                entry.chunk,
                entry.kind,
                entry.offset,
                entry.nbytes,
                leaf_digest(
                    plan.layout, chunks[entry.chunk], entry.kind, flat[entry.offset : entry.offset + entry.nbytes]
                ),
            )
            for entry in plan.snapshot_table(rank)
        ),
        curve=snapshot.curve,
    )


def store(blobs: Blobs, report: ShardReport, source: memoryview | Path) -> StoredShard:
    """Put the shard, then its report; idempotent. `source` holds the bytes that were described. Raises BlobError."""
    blobs.put_if_absent(report.shard_key, source)
    data = report.encode()
    blobs.put_if_absent(report.report_key, data)
    return StoredShard(report.report_key, bytes_digest(data), report.nbytes)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
