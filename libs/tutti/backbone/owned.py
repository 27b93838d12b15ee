"""Rights to blobs: each owner writes below its own name, and reads what others wrote only where that is declared.

Promises: the same rights hold on every store. `OwnedBlobs` refuses what they do not allow before it asks the store, so
that a right that nobody declared is missing in every test; an S3 server refuses it too (`s3.users`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tutti.backbone.blobs import OF_NODE, Blobs, BlobsRefused, Put, Stat
from tutti.backbone.cached import Prefetching

STACK, AUDIT, CHECKS = "stack/", "audit/", "stack/preflight/"
"""Prefixes of what services share: the identity of the stack, sealed audit trails, what checks of the store write."""
EACH = "*"
"""The node of rights that are declared once for all nodes: each has them on keys that end with its own name."""


@dataclass(frozen=True)
class BlobRights:
    """Prefixes of keys. Who may write or delete a blob may read it too.

    `node`: the end of each key that may be written, after OF_NODE; empty: any.
    """

    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    reads: tuple[str, ...] = ()
    node: str = ""

    def may_write(self, key: str) -> bool:
        return key.startswith(self.writes) and (not self.node or key.endswith(f"{OF_NODE}{self.node}"))

    def may_delete(self, key: str) -> bool:
        return key.startswith(self.deletes)

    def may_read(self, key: str) -> bool:
        """True for a key, or a prefix of keys, that may be read."""
        return self.may_write(key) or key.startswith((*self.deletes, *self.reads))


def service_rights(
    service: str, reads: Sequence[str] = (), deletes: Sequence[str] = (), writes: Sequence[str] = ()
) -> BlobRights:
    """The rights of a service that reads the blobs of these owners too, and deletes and writes below these prefixes."""
    return BlobRights(
        writes=(f"{service}/", f"{AUDIT}{service}/", STACK, *writes),
        deletes=(f"{service}/", CHECKS, *deletes),
        reads=tuple(f"{owner}/" for owner in reads),
    )


def agent_rights(owner: str, reads: Sequence[str], node: str) -> BlobRights:
    """The rights of the program of a node: it adds blobs below `owner` whose keys end with the node, deletes none, and
    reads what is below these prefixes.
    """
    return BlobRights(writes=(f"{owner}/",), deletes=(), reads=tuple(reads), node=node)


class OwnedBlobs:
    """`inner` for `owner`. A call that the rights do not allow raises BlobsRefused."""

    def __init__(self, inner: Blobs, owner: str, rights: BlobRights) -> None:
        self._inner, self._owner = inner, owner
        self.rights = rights

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        if not self.rights.may_write(key):
            self._refuse("write", key)
        return self._inner.put_if_absent(key, data)

    def get(self, key: str) -> bytes:
        return self._readable(key).get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._readable(key).get_range(key, start, length)

    def fetch(self, key: str, to: Path) -> None:
        self._readable(key).fetch(key, to)

    def stat(self, key: str) -> Stat:
        return self._readable(key).stat(key)

    def list(self, prefix: str) -> Iterator[Stat]:
        return self._readable(prefix).list(prefix)

    def delete(self, key: str) -> None:
        if not self.rights.may_delete(key):
            self._refuse("delete", key)
        self._inner.delete(key)

    def prefetch(self, keys: Sequence[str]) -> None:
        """As cached.Prefetching; nothing where the store has no use for it."""
        if isinstance(self._inner, Prefetching):
            self._inner.prefetch(keys)

    def close(self) -> None:
        self._inner.close()

    def _readable(self, key: str) -> Blobs:
        if not self.rights.may_read(key):
            self._refuse("read", key)
        return self._inner

    def _refuse(self, what: str, key: str) -> NoReturn:
        raise BlobsRefused(f"{self._owner} may not {what} {key}: its rights to blobs do not contain it")
