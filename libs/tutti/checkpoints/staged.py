"""A staged checkpoint: whole on the local disk, memory-mapped, read by any number of ranks.

Each tensor's digest is checked again as it is read, because a local disk can lie too. Needs nothing of the backbone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tutti.checkpoints.digests import DTYPE, leaf_digest
from tutti.checkpoints.errors import CheckpointError, Damaged, InvalidCheckpoint, Problem
from tutti.checkpoints.manifest import CheckpointBody
from tutti.checkpoints.report import KINDS
from tutti.model.chunks import Kind
from tutti.native.deferred import deferred

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = deferred("numpy")

MANIFEST = "manifest.json"


def open_staged(folder: Path, *, state_digest: str = "") -> StagedCheckpoint:
    """Open what `stage` left. Raises CheckpointError."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"no staged checkpoint in {folder}: {error}; stage it first") from error
    body = CheckpointBody.decode(data)
    require_state(body, str(path), state_digest)
    return StagedCheckpoint(body, folder)


class StagedCheckpoint:
    """A whole checkpoint on the local disk, memory-mapped."""

    def __init__(self, body: CheckpointBody, folder: Path) -> None:
        self.body = body
        self._folder = folder
        self._maps: dict[int, npt.NDArray[np.uint8]] = {}

    def read(self, chunk: int, kind: Kind | str) -> npt.NDArray[np.float32]:
        """The elements of one tensor of one chunk, read-only, float32 [length]. Raises Damaged."""
        kind = Kind(kind)
        place = self.body.places[len(KINDS) * chunk + KINDS.index(kind)]
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


def require_state(body: CheckpointBody, where: str, state_digest: str) -> None:
    """Refuse another state than the one that was asked for; empty asks for any."""
    if state_digest and body.state_digest != state_digest:
        raise InvalidCheckpoint(
            f"{where}: a checkpoint with state {body.state_digest}; expected {state_digest}: ask for the resume point"
        )
