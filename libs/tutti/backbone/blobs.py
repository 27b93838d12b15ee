"""Blobs: write-once bytes under keys `{owner}/{kind}/{name}`.

Promises: a key is written once and whole; what `put_if_absent` reported is durable; a lost answer is settled by reading
back; nothing partial is ever visible.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol


class Put(Enum):
    """What a put found: CREATED by this call, SAME when the key already held equal bytes."""

    CREATED = "created"
    SAME = "same"


@dataclass(frozen=True)
class Stat:
    key: str
    size: int


class BlobError(Exception):
    """Any failure of the blob store."""


class BlobMissing(BlobError):
    """No blob under this key."""


class BlobExists(BlobError):
    """The key already holds other bytes; the digests of both are in the message."""


class BadKey(BlobError):
    """The key is not `{owner}/{kind}/{name}` of plain characters."""


class BlobsUnavailable(BlobError):
    """The store cannot be reached or refused us; try again."""


class StoreFull(BlobError):
    """No space left; nothing was written."""


class Blobs(Protocol):
    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        """Store bytes (or the content of a file). Raises BlobExists if the key holds other bytes."""
        ...

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from `start`; BlobError if the blob is shorter."""
        ...

    def fetch(self, key: str, to: Path) -> None:
        """Copy to a local file, whole or not at all (durable, atomic)."""
        ...

    def stat(self, key: str) -> Stat: ...

    def list(self, prefix: str) -> Iterator[Stat]:
        """In key order."""
        ...

    def delete(self, key: str) -> None:
        """Idempotent. Only retention and garbage collection call it."""
        ...

    def close(self) -> None: ...
