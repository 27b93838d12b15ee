"""Reading a shard back in a process of the committer's pool: the bytes as fetched from the store.

Top-level and picklable. It gets local copies, because a pool process has no connection to the store.
"""

from __future__ import annotations

from pathlib import Path

from tutti.backbone.blobs import BlobError, BlobMissing, Blobs, Stat
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.verification import verify_report
from tutti.model.training import Training


class Fetched:
    """The blobs of one shard, copied into a folder; one that the store lacks is missing here too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fetch(self, blobs: Blobs, keys: tuple[str, ...]) -> None:
        for key in keys:
            try:
                blobs.fetch(key, self._path(key))
            except BlobMissing:
                continue

    def get(self, key: str) -> bytes:
        self.stat(key)
        return self._path(key).read_bytes()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._path(key).open("rb") as file:
            file.seek(start)
            data = file.read(length)
        if len(data) != length:
            raise BlobError(f"{key}: {length} bytes from {start} were asked for, it gave {len(data)}")
        return data

    def stat(self, key: str) -> Stat:
        if not self._path(key).is_file():
            raise BlobMissing(f"no blob {key!r}")
        return Stat(key, self._path(key).stat().st_size)

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "=")


def shard_keys(report_key: str) -> tuple[str, str]:
    """The keys of a report and of its shard."""
    return report_key, ShardName.of_report(report_key).shard_key


def read_back(folder: Path, report_key: str, report_digest: str, training: str) -> tuple[str, ...]:
    """Defects of the fetched shard, in words; empty when every byte is as reported."""
    try:
        found = verify_report(Fetched(folder), report_key, report_digest, Training.from_json(training))
    except CheckpointError as error:
        return (str(error),)
    return tuple(str(problem) for problem in found.problems)
