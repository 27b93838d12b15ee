"""Blobs: write-once bytes under keys `{owner}/{kind}/{name}`.

Promises: a key is written once and whole; what `put_if_absent` reported is durable; a lost answer is settled by reading
back; nothing partial is ever visible.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol


class Put(Enum):
    """The result of a put: CREATED by this call, or SAME when the key already held equal bytes."""

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


class BlobsRefused(BlobsUnavailable):
    """The store does not accept our credentials, or not for this; says nothing about the blob."""


class StoreFull(BlobError):
    """No space left; nothing was written."""


_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,199}")
_PREFIX = re.compile(r"[A-Za-z0-9._=/-]*")
MAX_KEY = 900
OF_NODE = "="
"""At the end of a key, before the node that wrote it; the names of nodes and jobs do not contain it."""


def check_key(key: str) -> None:
    """Raise BadKey unless the key is at least three segments of letters, digits and `._=-`.

    A key is never a folder of another key; a store may refuse such a pair.
    """
    segments = key.split("/")
    if len(segments) < 3 or len(key) > MAX_KEY or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise BadKey(
            f"{key!r} is not a key: expected owner/kind/name, at most {MAX_KEY} characters, segments of letters, "
            f"digits and ._=- that start with a letter, a digit or _"
        )


def check_prefix(prefix: str) -> None:
    """Raise BadKey unless some key could start like this."""
    if not _PREFIX.fullmatch(prefix) or prefix.startswith(("/", ".")) or "//" in prefix or "/." in prefix:
        raise BadKey(f"no key starts with {prefix!r}")


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
        """Blobs whose key starts with the prefix, in the order of the keys' bytes."""
        ...

    def delete(self, key: str) -> None:
        """Idempotent. Only retention and garbage collection call it."""
        ...

    def close(self) -> None: ...


def is_there(blobs: Blobs, key: str) -> bool:
    """True if a blob has this key. Raises BlobsUnavailable."""
    try:
        blobs.stat(key)
    except BlobMissing:
        return False
    return True
