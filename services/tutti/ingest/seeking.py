"""Seeking: which documents of document shards are retracted, by id or by the source that they were read under.

Promises: a function of shards and of what is wanted; no text is read. What was found in a shard is remembered, so that
another look at the same ingest costs nothing until something else is wanted.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import Refused, declare
from tutti.corpus.documents.stages import DocumentShardEntry
from tutti.corpus.rows import batches
from tutti.ingest.crawl.urls import NotAPage, canonical
from tutti.native.arrays import pa

REMEMBERED = 1 << 16
"""Shards of which is known what was found in them."""
_HOST, _NAME = r"(?:(?!xn--)[a-z0-9-]+\.)+[a-z]+", r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*"
_CANONICAL = re.compile(rf"https?://{_HOST}/(?:{_NAME}/)*(?:{_NAME})?")  # most URLs, which are not taken apart
_URL = re.compile(r"\s*https?:", re.IGNORECASE)

declare(
    {"SHARD_UNREADABLE": "a document shard is missing or damaged, so its documents are unknown; run its ingest again"}
)


class ShardGone(Refused):
    """A document shard is gone, by accident or since a page in it was retracted."""

    def __init__(self, blob: str) -> None:
        super().__init__("SHARD_UNREADABLE", f"{blob} is gone; run its ingest again")


@dataclass(frozen=True, slots=True)
class Selection:
    """Documents by id, and all that was read under these sources, each in its one form."""

    documents: frozenset[str]
    sources: frozenset[str]

    def covers(self, other: Selection) -> bool:
        return self.documents >= other.documents and self.sources >= other.sources

    def names(self, seen: SourcedDocument) -> bool:
        return seen.doc_id in self.documents or (bool(self.sources) and form(seen.source) in self.sources)

    def may_be_in(self, shard: DocumentShardEntry) -> bool:
        """True if the shard has to be read: a source may be anywhere, an id only in a range that contains it."""
        ordered = sorted(self.documents)
        at = bisect_left(ordered, shard.info.first_doc_id)
        return bool(self.sources) or (at < len(ordered) and ordered[at] <= shard.info.last_doc_id)


@dataclass(frozen=True, slots=True)
class SourcedDocument:
    """A document, and the source that it was read under."""

    doc_id: str
    source: str


def form(source: str) -> str:
    """A URL as a crawl writes it, however it was written; another source as it is."""
    if _CANONICAL.fullmatch(source) or not _URL.match(source):
        return source
    try:
        return canonical(source)
    except NotAPage:
        return source


class Seeker:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs, self._lock = blobs, Lock()
        self._known: OrderedDict[str, tuple[Selection, tuple[SourcedDocument, ...]]] = OrderedDict()

    def documents(
        self, shards: Iterable[DocumentShardEntry], wanted: Selection, check: Callable[[], None]
    ) -> Iterator[SourcedDocument]:
        """The requested documents of these shards. `check` is called before each shard and may raise. Raises
        Refused.
        """
        for shard in shards:
            if wanted.may_be_in(shard):
                check()
                yield from (each for each in self._found(shard, wanted) if wanted.names(each))

    def _found(self, shard: DocumentShardEntry, wanted: Selection) -> tuple[SourcedDocument, ...]:
        with self._lock:
            known = self._known.get(shard.blob)
        if known is not None and known[0].covers(wanted):
            return known[1]
        found = tuple(each for each in rows(self._blobs, shard) if wanted.names(each))
        with self._lock:
            self._known[shard.blob] = (wanted, found)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found


def rows(blobs: Blobs, shard: DocumentShardEntry) -> Iterator[SourcedDocument]:
    """The documents of a shard, without their texts. Raises Refused when it is gone or no shard."""
    try:
        for batch in batches(pa.PythonFile(BlobFile(blobs, shard.blob), "r"), ["doc_id", "source"]):
            yield from map(SourcedDocument, batch["doc_id"].to_pylist(), batch["source"].to_pylist())
    except BlobMissing as error:
        raise ShardGone(shard.blob) from error
    except (pa.ArrowException, OSError) as error:
        raise Refused("SHARD_UNREADABLE", f"{shard.blob} is damaged: {error}; run its ingest again") from error


class BlobFile(io.RawIOBase):
    """A blob as a file to read from: only what is asked for is fetched."""

    def __init__(self, blobs: Blobs, key: str) -> None:
        """Raises BlobMissing."""
        self._blobs, self._key, self._at = blobs, key, 0
        self._size = blobs.stat(key).size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = max(0, self._size - self._at) if size < 0 else min(size, max(0, self._size - self._at))
        data = self._blobs.get_range(self._key, self._at, length) if length else b""
        self._at += length
        return data
