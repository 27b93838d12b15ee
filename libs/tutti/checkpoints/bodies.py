"""The contents of a manifest of a checkpoint, of whichever kind: one that was trained here, or an import."""

from __future__ import annotations

from typing import Protocol

from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.manifest import CheckpointBody
from tutti.records.manifest import Kind, Manifest

Body = CheckpointBody | ImportBody


class Named(Protocol):
    """The resource of a checkpoint."""

    @property
    def state_digest(self) -> str: ...

    @property
    def folder_digest(self) -> str: ...


def identity_of(checkpoint: Named) -> str:
    """The digest that names the content of a checkpoint: that of its state, or of the folder of an import."""
    return checkpoint.state_digest or checkpoint.folder_digest


def decode_body(data: bytes) -> Body:
    """Read the bytes of a manifest; raises InvalidCheckpoint, UnsupportedFormat or InvalidManifest."""
    manifest = Manifest.decode(data, expected=(Kind.CHECKPOINT, Kind.IMPORT))
    return (ImportBody if manifest.kind == Kind.IMPORT else CheckpointBody).read(manifest)
