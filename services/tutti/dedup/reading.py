"""Reading: document shards where the nodes of a cluster are, each fetched from the blobs and checked before it is used.

Promises: a shard is read by one call at a time, a few documents at a time; what comes out of a call is what it gives of
one shard. A node with another version of the logic is refused: it might find others.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tutti.backbone.blobs import BlobMissing
from tutti.backbone.connect import open_blobs
from tutti.dedup import shards, steps
from tutti.dedup.columns import table
from tutti.dedup.version import LOGIC_VERSION
from tutti.records.canonical import file_digest

SHARDS = pa.schema(
    [("shard", pa.int32()), ("part", pa.string()), ("of", pa.int32()), ("blob", pa.string()), ("digest", pa.string())]
)
"""The part (`representatives.py`) and dataset of a shard, its location, and the digest of its bytes."""
Place = tuple[str, str]
"""A blob, and the digest of its bytes."""

_open_once = functools.cache(open_blobs)


class Unreadable(Exception):
    """A shard is not there as it should be, or a node is not fit to read it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The documents of shards in the blobs, but those with the ids `without`; `documents`: how many the shards have."""

    shards: tuple[Place, ...]
    without: frozenset[str] = frozenset()
    documents: int = 0


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that was fetched: its number, the part and the dataset that it is of."""

    number: int
    part: str
    of: int
    path: Path

    def batches(self, column: str) -> Iterator[pa.RecordBatch]:
        """All documents, by `doc_id` and a column."""
        yield from shards.reader([self.path])(["doc_id", column])

    def named(self, batch: pa.RecordBatch) -> pa.Array:
        """The names of the documents of a batch."""
        return named(batch["doc_id"], self.part)

    def texts(self, wanted: pa.ChunkedArray) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The names and texts of the documents that are wanted."""
        every = wanted.combine_chunks()
        for batch in self.batches("text"):
            names = self.named(batch)
            here = pc.is_in(names, value_set=every)  # type: ignore[attr-defined]
            yield names.filter(here), batch["text"].filter(here)


@dataclass(frozen=True)
class Reading:
    """`blobs` is the URL of the store, as the nodes reach it. The functions raise Unreadable."""

    blobs: str
    version: str = LOGIC_VERSION

    def names(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS → READ."""
        with self.shard(rows) as shard:
            found = [_read(shard, batch) for batch in shard.batches("text_digest")]
        return in_one(found, steps.READ)

    def banded(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS and STANDING → BANDED, of those that stay."""
        stay = rows.filter(rows["kept"].is_null())["doc"].drop_null()
        with self.shard(rows) as shard:
            found = [steps.banded(*some, shard.number) for some in shard.texts(stay)]
        return in_one(found, steps.BANDED)

    def texts(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS and GROUPED → TOLD: the text of a document for each group that asks for it."""
        wanted = rows.filter(rows["node"].is_valid()).select(["group", "node"])
        with self.shard(rows) as shard:
            found = [
                pa.table({"node": names, "text": texts.cast(pa.large_string())})
                for names, texts in shard.texts(wanted["node"])
            ]
        told = pa.concat_tables(found).join(wanted, "node", join_type="inner")
        return told.select(steps.TOLD.names).cast(steps.TOLD)

    @contextmanager
    def shard(self, rows: pa.Table) -> Iterator[Shard]:
        """The shard whose rows these are, for as long as a block lasts."""
        place = rows.filter(rows["blob"].is_valid())
        ((number, part, of, *where),) = zip(*(place[name].to_pylist() for name in SHARDS.names), strict=True)
        with self.files([(where[0], where[1])]) as (path,):
            yield Shard(number, part, of, path)

    @contextmanager
    def files(self, places: Sequence[Place]) -> Iterator[list[Path]]:
        """Shards as local files, for as long as a block lasts."""
        if self.version != LOGIC_VERSION:
            raise Unreadable(
                f"a node of the cluster has version {LOGIC_VERSION} of dedup, expected {self.version}: install on it "
                "the tutti that runs dedup"
            )
        with tempfile.TemporaryDirectory(prefix="tutti-shard-") as folder:
            yield [self._fetched(*place, Path(folder, str(number))) for number, place in enumerate(places)]

    def _fetched(self, blob: str, digest: str, to: Path) -> Path:
        try:
            _open_once(self.blobs).fetch(blob, to)
        except BlobMissing as error:
            raise Unreadable(
                f"the blob {blob} is not where the cluster looks for it; dedup.ray_blobs must be the store of "
                "blobs.url, as the nodes reach it"
            ) from error
        if (seen := file_digest(to)) != digest:
            raise Unreadable(
                f"the blob {blob} is damaged: its bytes have digest {seen}, expected {digest}; run the recipe again, "
                "its stage will be made again"
            )
        return to


def named(ids: pa.Array, part: str) -> pa.Array:
    """The letter of the part of each id, and its 32 bytes."""
    letter = part.encode()
    return pa.array([letter + bytes.fromhex(each) for each in ids.to_pylist()], pa.binary())


def in_one(found: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Tables of a schema as one."""
    return pa.concat_tables([schema.empty_table(), *found])


def _read(shard: Shard, batch: pa.RecordBatch) -> pa.Table:
    texts = [bytes.fromhex(each.removeprefix("blake3:")) for each in batch["text_digest"].to_pylist()]
    number, of = (np.full(len(texts), each) for each in (shard.number, shard.of))
    return table(steps.READ, shard.named(batch), pa.array(texts, pa.binary()), number, of)
