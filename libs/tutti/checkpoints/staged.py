"""A staged checkpoint: whole on the local disk, memory-mapped, read by any number of ranks.

Each tensor's digest is checked again as it is read, because a local disk can lie too. Needs nothing of the backbone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tutti.checkpoints.bodies import Body, decode_body
from tutti.checkpoints.digests import DTYPE, leaf_digest
from tutti.checkpoints.errors import CheckpointError, Damaged, InvalidCheckpoint, Problem
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.manifest import CheckpointBody
from tutti.model.chunks import Kind
from tutti.native.deferred import deferred

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = deferred("numpy")

MANIFEST = "manifest.json"


def open_staged(folder: Path, *, identity: str = "") -> StagedCheckpoint:
    """Open what `stage` left. Raises CheckpointError."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"no staged checkpoint in {folder}: {error}; stage it first") from error
    body = decode_body(data)
    require_identity(body, str(path), identity)
    return StagedCheckpoint(body, folder)


class StagedCheckpoint:
    """A whole checkpoint on the local disk, memory-mapped."""

    def __init__(self, body: Body, folder: Path) -> None:
        self.body = body
        self._folder = folder
        self._maps: dict[int, npt.NDArray[np.uint8]] = {}

    @property
    def state(self) -> CheckpointBody:
        """The body of a state of a training. Raises CheckpointError for an import, which has parameters alone."""
        if isinstance(self.body, ImportBody):
            raise CheckpointError(
                f"{self.body.name} was imported and has parameters alone; expected a checkpoint of a training, such as "
                "one that began with it"
            )
        return self.body

    def read(self, chunk: int, kind: Kind | str) -> npt.NDArray[np.float32]:
        """The elements of one tensor of one chunk, read-only, float32 [length].

        Raises Damaged, and CheckpointError for moments of an import, which has none.
        """
        kind, kinds = Kind(kind), self.body.kinds
        if kind not in kinds:
            raise CheckpointError(f"{self.body.name} was imported and has parameters alone, no {kind.value}")
        place = self.body.places[len(kinds) * chunk + kinds.index(kind)]
        entry, layout = place.entry, self.body.layout
        data = self._map(place.blob)[entry.offset : entry.offset + entry.nbytes]
        seen = leaf_digest(layout, layout.chunks[chunk], kind, data.data)
        if seen != entry.digest:
            where = f"chunk {chunk} ({layout.chunks[chunk].name}) {kind.value}"
            path = str(self._path(place.blob))
            raise Damaged(path, [Problem(path, where, f"blake3:{seen.hex()}", f"blake3:{entry.digest.hex()}")])
        return data.view(np.dtype(DTYPE))

    def _map(self, blob: int) -> npt.NDArray[np.uint8]:
        if blob not in self._maps:
            path, expected = self._path(blob), self.body.blobs[blob].nbytes
            size = path.stat().st_size if path.exists() else -1
            if size != expected:
                seen = f"{size} bytes" if size >= 0 else "no such file"
                raise Damaged(str(path), [Problem(str(path), "", seen, f"{expected} bytes")])
            self._maps[blob] = np.memmap(path, dtype=np.uint8, mode="r")
        return self._maps[blob]

    def _path(self, blob: int) -> Path:
        return self._folder / f"{blob}.bin"


def require_identity(body: Body, where: str, identity: str) -> None:
    """Refuse another checkpoint than the one that was asked for; empty asks for any."""
    if identity and body.identity != identity:
        raise InvalidCheckpoint(
            f"{where}: a checkpoint with digest {body.identity}; expected {identity}: ask for the resume point"
        )
