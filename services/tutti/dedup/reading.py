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

import pyarrow as pa
import pyarrow.compute as pc

from tutti.backbone.blobs import BlobMissing
from tutti.backbone.connect import open_blobs
from tutti.corpus.canonical import file_digest
from tutti.dedup import shards, steps
from tutti.dedup.near import NEAR_VERSION

SHARDS = pa.schema([("shard", pa.int32()), ("blob", pa.string()), ("digest", pa.string())])
"""Where a shard lies, and the digest of its bytes."""

_open_once = functools.cache(open_blobs)


class Unreadable(Exception):
    """A shard is not there as it should be, or a node is not fit to read it."""


@dataclass(frozen=True)
class Reading:
    """`blobs` is the URL of the store, as the nodes reach it. The functions raise Unreadable."""

    blobs: str
    version: int = NEAR_VERSION

    def names(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS → DOCUMENTS."""
        with self._shard(rows) as (shard, read):
            found = [_documents(batch, shard) for batch in read(["doc_id", "text_digest"])]
        return _all(found, steps.DOCUMENTS)

    def banded(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS and STANDING → BANDED, of those that stay."""
        stay = rows.filter(rows["kept"].is_null())["doc"].drop_null()
        with self._shard(rows) as (shard, read):
            found = [steps.banded(*_some(batch, stay), shard) for batch in read(["doc_id", "text"])]
        return _all(found, steps.BANDED)

    def texts(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS and GROUPED → TOLD: the text of a document for each group that asks for it."""
        wanted = rows.filter(rows["node"].is_valid()).select(["group", "node"])
        with self._shard(rows) as (_, read):
            found = [
                pa.table({"node": ids, "text": texts.cast(pa.large_string())})
                for ids, texts in (_some(batch, wanted["node"]) for batch in read(["doc_id", "text"]))
            ]
        told = pa.concat_tables(found).join(wanted, "node", join_type="inner")
        return told.select(steps.TOLD.names).cast(steps.TOLD)

    @contextmanager
    def _shard(self, rows: pa.Table) -> Iterator[tuple[int, shards.Reader]]:
        """The number of the shard whose rows these are, and a reader of it; none where only documents name it."""
        if self.version != NEAR_VERSION:
            raise Unreadable(
                f"a node of the cluster has version {NEAR_VERSION} of near-duplicates, expected {self.version}: "
                "install on it the tutti that runs dedup"
            )
        place = rows.filter(rows["blob"].is_valid())
        ((shard, blob, digest),) = zip(*(place[name].to_pylist() for name in SHARDS.names), strict=True)
        with tempfile.TemporaryDirectory(prefix="tutti-shard-") as folder:
            yield shard, shards.reader([self._fetched(blob, digest, Path(folder, "shard"))])

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
                "its stage will be made anew"
            )
        return to


def named(ids: pa.Array) -> pa.Array:
    """The 32 bytes of each id."""
    return pa.array([bytes.fromhex(each) for each in ids.to_pylist()], pa.binary())


def _documents(batch: pa.RecordBatch, shard: int) -> pa.Table:
    texts = [bytes.fromhex(each.removeprefix("blake3:")) for each in batch["text_digest"].to_pylist()]
    columns = [named(batch["doc_id"]), pa.array(texts, pa.binary()), pa.array([shard] * len(texts), pa.int32())]
    return pa.table([*columns, pa.nulls(len(texts), pa.bool_())], schema=steps.DOCUMENTS)


def _some(batch: pa.RecordBatch, wanted: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """The ids and texts of the documents of a batch that are wanted."""
    ids = named(batch["doc_id"])
    here = pc.is_in(ids, value_set=wanted.combine_chunks())  # type: ignore[attr-defined]
    return ids.filter(here), batch["text"].filter(here)


def _all(found: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(found) if found else schema.empty_table()
