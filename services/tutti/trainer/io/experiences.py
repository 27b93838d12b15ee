"""Experience on the local disk, from when a rank told it until its owner knows it.

An entry is whole and durable or not there; the next I/O child goes on with what the last one left.
"""

import contextlib
from pathlib import Path

from google.protobuf.message import DecodeError

from tutti.backbone.blobs import OF_NODE
from tutti.backbone.files import Files, make_folders, overwrite
from tutti.contracts.trainer.v1 import ExperienceName, StoreExperience

_SUFFIX = ".experience"


def experience_key(name: ExperienceName, node: str) -> str:
    """The blob of an experience that `node` (without `nodes/`) stores; its name holds the digest of its bytes."""
    job, digest = name.job.removeprefix("jobs/"), name.digest.removeprefix("blake3:")
    return f"trainer/experiences/{job}/{name.line}/{name.iteration}/{digest}{OF_NODE}{node}"


class ExperienceSpool:
    """Files of messages, each a StoreExperience."""

    def __init__(self, folder: Path, files: Files) -> None:
        """Removes what a dead process left half-written; what it had stored is told again."""
        self._folder, self._files = folder, files
        make_folders(files, folder)
        for name, _ in files.list(folder):
            if not name.endswith(_SUFFIX):
                files.unlink(folder / name)
        self._stored: set[str] = set()

    def put(self, experience: StoreExperience) -> None:
        """Durable on return. Raises OSError."""
        path = self._path(experience.name)
        overwrite(self._files, path.with_suffix(".tmp"), path, [experience.SerializeToString()])

    def next(self) -> StoreExperience | None:
        """The next experience to store, if any; a file that cannot be read is removed."""
        for name, _ in sorted(self._files.list(self._folder)):
            if name.endswith(_SUFFIX) and name not in self._stored:
                try:
                    return StoreExperience.FromString(self._files.read(self._folder / name))
                except DecodeError:
                    self._files.unlink(self._folder / name)
        return None

    def stored(self, name: ExperienceName) -> None:
        """It is in the blob store: this process does not store it again."""
        self._stored.add(self._path(name).name)

    def forget(self, name: ExperienceName) -> None:
        """Its owner knows it."""
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(path)
        self._stored.discard(path.name)

    def _path(self, name: ExperienceName) -> Path:
        job, digest = name.job.removeprefix("jobs/"), name.digest.removeprefix("blake3:")
        return self._folder / f"{job}.{name.line}.{name.iteration}.{digest[:16]}{_SUFFIX}"
