"""The archive: the folder that holds one backup.

    backup.json     what it is: version, stack, services; written last, so an archive without it is incomplete
    checksums       BLAKE3 of each file, as `b3sum --check` reads it
    db/SERVICE.db   the tables of a service as a SQLite file, whatever database it came from
    blobs/KEY       the blobs, as an embedded platform keeps them

Promises: readers refuse an incomplete archive, one of a newer format, and one whose files differ from their checksums.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from blake3 import blake3

FORMAT = 1
MANIFEST, CHECKSUMS = "backup.json", "checksums"
PIECE = 4 << 20


class BackupError(Exception):
    """A backup cannot be made or used; the message says why and what to do."""


@dataclass(frozen=True)
class Manifest:
    """`rows` counts the rows of each service; `stack` is the id of the platform."""

    format: int
    tutti: str
    stack: str
    at: str
    rows: Mapping[str, int]
    blobs: int
    bytes: int

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


@dataclass(frozen=True)
class Archive:
    folder: Path

    @property
    def databases(self) -> Path:
        return self.folder / "db"

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    def database(self, service: str) -> Path:
        return self.databases / f"{service}.db"

    def manifest(self) -> Manifest:
        """Raises BackupError."""
        path = self.folder / MANIFEST
        try:
            found = json.loads(path.read_text())
            if found["format"] > FORMAT:
                raise BackupError(
                    f"{path} has format {found['format']}, this version knows up to {FORMAT}: use Tutti "
                    f"{found['tutti']} or newer"
                )
            return Manifest(**found)
        except FileNotFoundError:
            raise BackupError(
                f"{self.folder} is not a complete backup: it has no {MANIFEST}, which `tutti backup` writes last"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackupError(f"{path} cannot be read: {error}") from None

    def checksums(self) -> dict[str, str]:
        """Return the digest of each file by its path. Raises BackupError."""
        try:
            lines = (self.folder / CHECKSUMS).read_text().splitlines()
        except (OSError, ValueError) as error:
            raise BackupError(f"{self.folder / CHECKSUMS} cannot be read: {error}") from None
        return {path: digest for digest, _, path in (line.partition("  ") for line in lines)}

    def verify(self, progress: Callable[[int, int], None]) -> None:
        """Compare each file with its checksum. Raises BackupError, which names the first that differ."""
        stated = self.checksums()
        sizes = {path: _size(self.folder / path) for path in stated}
        total, done, wrong = sum(sizes.values()), 0, []
        for path, digest in stated.items():
            try:
                seen = digest_of(self.folder / path)
            except OSError as error:
                seen = f"none ({error.strerror})"
            if seen != digest:
                wrong.append(f"{path} has digest {seen}, expected {digest}")
            done += sizes[path]
            progress(done, total)
        if wrong:
            more = f" and {len(wrong) - 1} others" if len(wrong) > 1 else ""
            raise BackupError(f"{self.folder} is damaged: {wrong[0]}{more}; nothing was restored")


def digest_of(path: Path) -> str:
    hasher = blake3()
    for piece in _pieces(path):
        hasher.update(piece)
    return hasher.hexdigest()


def _pieces(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
