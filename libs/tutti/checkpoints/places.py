"""The places of tensors in blobs: which blob holds which tensor of which chunk, and at which of its bytes.

Promises: a body whose places were checked has every tensor once, of its length, and covers every blob from its first
byte to its last.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.checkpoints.errors import InvalidCheckpoint
from tutti.checkpoints.report import ChunkEntry, digests_of
from tutti.model.chunks import Kind, Layout
from tutti.model.plan import BYTES
from tutti.records.canonical import JsonValue
from tutti.records.fields import Fields
from tutti.records.records import written_later


@dataclass(frozen=True, slots=True)
class BlobEntry:
    """A shard blob, written by one rank."""

    key: str
    nbytes: int
    bytes_digest: str


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """The place of one tensor of one chunk: the index of its blob, and offset and length in it, in bytes."""

    blob: int
    entry: ChunkEntry


Entries = tuple[tuple[ChunkEntry, ...], ...]


def entries_by_blob(blobs: Sequence[BlobEntry], places: Sequence[ChunkPlace]) -> Entries:
    """The entries of each blob, in order of their offsets."""
    found: list[list[ChunkEntry]] = [[] for _ in blobs]
    for place in places:
        found[place.blob].append(place.entry)
    return tuple(tuple(sorted(entries, key=lambda entry: entry.offset)) for entries in found)


def blobs_to_json(blobs: Sequence[BlobEntry]) -> list[JsonValue]:
    """The field `blobs` of a manifest."""
    return [{"bytes": b.nbytes, "bytes_digest": b.bytes_digest, "key": b.key, **written_later(b)} for b in blobs]


def places_to_json(places: Sequence[ChunkPlace]) -> Mapping[str, JsonValue]:
    """The field `chunks` of a manifest: parallel columns, the digests as one string of hexadecimal."""
    return {
        "blob": [place.blob for place in places],
        "digest": b"".join(place.entry.digest for place in places).hex(),
        "nbytes": [place.entry.nbytes for place in places],
        "offset": [place.entry.offset for place in places],
    }


def blobs_of(fields: Fields) -> tuple[BlobEntry, ...]:
    """Read the field `blobs`."""
    return tuple(
        BlobEntry(item.text("key"), item.count("bytes"), item.digest("bytes_digest"), **item.later(BlobEntry))
        for item in fields.objects("blobs")
    )


def places_of(fields: Fields, layout: Layout, kinds: Sequence[Kind]) -> tuple[ChunkPlace, ...]:
    """Read the field `chunks`: of all chunks in order, of each its kinds in order. Raises InvalidCheckpoint."""
    table = fields.nested("chunks")
    columns = [table.counts(key) for key in ("blob", "offset", "nbytes")]
    expected = len(kinds) * len(layout.chunks)
    if any(len(column) != expected for column in columns):
        seen = [len(column) for column in columns]
        raise InvalidCheckpoint(f"body.chunks has columns of {seen}; expected {expected} each")
    digests = digests_of(table.text("digest"), len(columns[0]))
    return tuple(
        ChunkPlace(blob, ChunkEntry(chunk.index, kind, offset, nbytes, digest))
        for (chunk, kind), blob, offset, nbytes, digest in zip(
            itertools.product(layout.chunks, kinds), *columns, digests, strict=True
        )
    )


def check_places(
    name: str, layout: Layout, kinds: Sequence[Kind], blobs: Sequence[BlobEntry], places: Sequence[ChunkPlace]
) -> None:
    """Every tensor once, of its length, and every blob covered. Raises InvalidCheckpoint for the checkpoint `name`."""
    if len(places) != len(kinds) * len(layout.chunks):
        raise InvalidCheckpoint(f"{name}: {len(places)} tensors; expected {len(layout.chunks)} chunks x {len(kinds)}")
    for (chunk, kind), place in zip(itertools.product(layout.chunks, kinds), places, strict=True):
        entry = place.entry
        if (entry.chunk, entry.kind, entry.nbytes) != (chunk.index, kind, BYTES * chunk.length):
            raise InvalidCheckpoint(
                f"{name}: chunk {entry.chunk} {entry.kind.value} of {entry.nbytes} bytes; "
                f"expected chunk {chunk.index} {kind.value} of {BYTES * chunk.length}"
            )
        if place.blob >= len(blobs):
            raise InvalidCheckpoint(f"{name}: chunk {chunk.index} in blob {place.blob} of {len(blobs)}")
    for blob, entries in zip(blobs, entries_by_blob(blobs, places), strict=True):
        end = 0
        for entry in entries:
            if entry.offset != end:
                raise InvalidCheckpoint(f"{blob.key}: chunk {entry.chunk} at {entry.offset}; expected {end}")
            end += entry.nbytes
        if end != blob.nbytes:
            raise InvalidCheckpoint(f"{blob.key}: its chunks end at {end}; it has {blob.nbytes} bytes")
