"""Checkpoints: how a state is named, stored in shards, described by a manifest, verified and read back.

Promises: nothing is used whose digest was not checked; no torch, grpc or SQL is imported by what ranks use, which is
what is exported here. `reader.stage` fetches from a blob store, `verification` reads bytes back from one.
"""

from tutti.checkpoints.digests import model_digest, state_digest
from tutti.checkpoints.errors import CheckpointError, Damaged, Incomplete, InvalidReport, Problem
from tutti.checkpoints.keys import ShardName, checkpoint_name, manifest_key
from tutti.checkpoints.manifest import CheckpointBody, build_manifest
from tutti.checkpoints.report import ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.staged import StagedCheckpoint, open_staged
from tutti.checkpoints.writer import Snapshot, StoredShard, describe, store

__all__ = [
    "CheckpointBody",
    "CheckpointError",
    "Damaged",
    "Incomplete",
    "InvalidReport",
    "Problem",
    "ShardName",
    "ShardReport",
    "Snapshot",
    "StagedCheckpoint",
    "StateScalars",
    "StoredShard",
    "build_manifest",
    "checkpoint_name",
    "describe",
    "manifest_key",
    "model_digest",
    "open_staged",
    "state_digest",
    "store",
]
