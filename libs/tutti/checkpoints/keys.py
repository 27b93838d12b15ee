"""Keys and names of what a checkpoint is made of.

A shard's key carries job, line, step, epoch and rank, so no two attempts ever write the same blob. It ends with the
node that stores it, so that a store can refuse it to every other node.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tutti.backbone.blobs import OF_NODE
from tutti.checkpoints.errors import CheckpointError

SHARDS = "trainer/shards/"
REPORTS = "trainer/reports/"
MANIFESTS = "committer/manifests/"
CURVES = "committer/curves/"
QUARANTINE = "committer/quarantine/"
IMPORTS = "committer/imports/"


@dataclass(frozen=True, order=True)
class ShardName:
    """The identity of a shard: job, attempt, rank and step; `job` is the id without `jobs/`.

    `node`, without `nodes/`, is the place of its blobs and no part of its identity; earlier versions had none.
    """

    job: str
    line: int
    step: int
    epoch: int
    rank: int
    node: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.job}.{self.line}.{self.step}.{self.epoch}.{self.rank}"

    @property
    def shard_key(self) -> str:
        return f"{SHARDS}{self}{OF_NODE}{self.node}" if self.node else f"{SHARDS}{self}.bin"

    @property
    def report_key(self) -> str:
        return f"{REPORTS}{self}{OF_NODE}{self.node}" if self.node else f"{REPORTS}{self}.json"

    def stored_by(self, node: str) -> ShardName:
        """The same shard among the blobs of `nodes/NODE`."""
        return replace(self, node=node.removeprefix("nodes/"))

    @classmethod
    def of_report(cls, key: str) -> ShardName:
        """Raises CheckpointError when `key` names no report."""
        name = cls._of(key.removeprefix(REPORTS), ".json")
        if name is None or name.report_key != key:
            raise CheckpointError(f"{key!r} names no report; expected {REPORTS}<job>.<line>.<step>.<epoch>.<rank>=NODE")
        return name

    @classmethod
    def of_shard(cls, key: str) -> ShardName:
        """Raises CheckpointError when `key` names no shard."""
        name = cls._of(key.removeprefix(SHARDS), ".bin")
        if name is None or name.shard_key != key:
            raise CheckpointError(f"{key!r} names no shard; expected {SHARDS}<job>.<line>.<step>.<epoch>.<rank>=NODE")
        return name

    @classmethod
    def _of(cls, text: str, suffix: str) -> ShardName | None:
        name, mark, node = text.partition(OF_NODE)
        if not mark:
            return cls._read(text.removesuffix(suffix))
        found = cls._read(name)
        return None if found is None or not node or "/" in node else found.stored_by(node)

    @classmethod
    def _read(cls, text: str) -> ShardName | None:
        job, *numbers = text.rsplit(".", 4)
        if not job or len(numbers) != 4 or not all(part.isascii() and part.isdigit() for part in numbers):
            return None
        line, step, epoch, rank = map(int, numbers)
        return cls(job, line, step, epoch, rank)


def manifest_key(job: str, line: int, step: int) -> str:
    return f"{MANIFESTS}{job}.{line}.{step}.json"


def quarantine_key(job: str, line: int, step: int, number: int) -> str:
    return f"{QUARANTINE}{job}.{line}.{step}.{number}.json"


def curve_key(name: ShardName, digest: str) -> str:
    """The key of the curve reported with the snapshot `name`, by whichever rank."""
    return f"{CURVES}{replace(name, rank=0)}.{digest.removeprefix('blake3:')[:32]}.bin"


def snapshot_of_curve(key: str) -> ShardName:
    """Raises CheckpointError when `key` names no curve."""
    name, _, digest = key.removeprefix(CURVES).removesuffix(".bin").rpartition(".")
    found = ShardName._read(name)
    if found is None or curve_key(found, digest) != key:
        raise CheckpointError(f"{key!r} names no curve; expected {CURVES}<job>.<line>.<step>.<epoch>.0.<digest>.bin")
    return found


def import_of(folder_digest: str) -> str:
    """The first part of the name of a checkpoint that was imported from the folder with a digest."""
    return f"import-{folder_digest.removeprefix('blake3:')}"


def import_key(folder_digest: str, bytes_digest: str) -> str:
    """The key of a blob of an import, named by the digest of its bytes."""
    return f"{import_folder(folder_digest)}/{bytes_digest.removeprefix('blake3:')}"


def import_folder(folder_digest: str) -> str:
    """The prefix of the keys of all blobs of an import."""
    return f"{IMPORTS}{import_of(folder_digest)}"


def checkpoint_name(job: str, line: int, step: int) -> str:
    """The resource's name, `checkpoints/{job}/{line}/{step}`."""
    return f"checkpoints/{job}/{line}/{step}"


def experience_name(job: str, line: int, iteration: int) -> str:
    """The name of the resource with the rollouts of an iteration, `experiences/{job}/{line}/{iteration}`."""
    return f"experiences/{job}/{line}/{iteration}"


def checkpoint_of(key: str) -> str:
    """The name of the checkpoint whose manifest lies under `key`. Raises CheckpointError for another key."""
    job, *place = key.removeprefix(MANIFESTS).removesuffix(".json").rsplit(".", 2)
    if len(place) == 2 and all(part.isascii() and part.isdigit() for part in place):
        line, step = map(int, place)
        if key == manifest_key(job, line, step):
            return checkpoint_name(job, line, step)
    raise CheckpointError(f"{key!r} names no manifest; expected {MANIFESTS}<job>.<line>.<step>.json")


def manifest_of(checkpoint: str) -> str:
    """The key of a checkpoint's manifest. Raises CheckpointError for another name."""
    parts = checkpoint.removeprefix("checkpoints/").rsplit("/", 2)
    if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts[1:]):
        key = manifest_key(parts[0], int(parts[1]), int(parts[2]))
        if checkpoint_of(key) == checkpoint:
            return key
    raise CheckpointError(f"{checkpoint!r} names no checkpoint; expected checkpoints/<job>/<line>/<step>")
