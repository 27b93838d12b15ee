"""Staging: blobs that a stage reads, fetched to a scratch folder and checked by digest before use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tutti.backbone import Blobs
from tutti.backbone.blobs import BadKey, BlobMissing
from tutti.backbone.cached import Prefetching
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.tasks import WorkFailed
from tutti.corpus.documents import decisions as decisions_file
from tutti.corpus.documents import duplicates as duplicates_file
from tutti.corpus.documents.stages import DocumentShardEntry
from tutti.native.arrays import pa
from tutti.records.canonical import bytes_digest, file_digest, parse_json
from tutti.records.errors import CorpusError
from tutti.records.manifest import Manifest

PIECE_BYTES = 4 << 20
"""In one answer, at most."""


def manifest(blobs: Blobs, key: str, digest: str, *kinds: str) -> Manifest:
    """Read and check a manifest of one of these kinds. Raises WorkFailed when it is missing, damaged or another one."""
    try:
        found = Manifest.decode(blobs.get(key), expected=kinds)
    except BadKey as error:
        raise _unnamed("manifest", error) from error
    except BlobMissing as error:
        raise WorkFailed(f"the manifest {key} is gone; run the recipe again, its stage will be made again") from error
    except CorpusError as error:
        raise WorkFailed(
            f"the manifest {key} does not hold: {error}; run the recipe again, its stage will be made again"
        ) from error
    if digest and found.content_digest != digest:
        raise WorkFailed(f"the manifest {key} has digest {found.content_digest}, expected {digest}")
    return found


def _unnamed(what: str, error: BadKey) -> WorkFailed:
    """The error for a key that is none, as that of a resource without a result."""
    return WorkFailed(f"there is no {what} to read: {error}; name a resource that is done")


def blob(blobs: Blobs, key: str, digest: str, to: Path) -> Path:
    """Fetch a blob to a local file whose bytes have `digest`. Raises WorkFailed."""
    try:
        blobs.fetch(key, to)
    except BlobMissing as error:
        raise WorkFailed(f"the blob {key} is gone; run the recipe again, its stage will be made again") from error
    seen = file_digest(to)
    if seen != digest:
        raise WorkFailed(
            f"the blob {key} is damaged: its bytes have digest {seen}, expected {digest}; run the recipe again, its "
            f"stage will be made again"
        )
    return to


def piece(blobs: Blobs, key: str, size: int, offset: int, *, gone: Refused) -> bytes:
    """At most PIECE_BYTES of a blob of `size` bytes from an offset on, for who asked for them; none at its end.

    Raises InvalidField for an offset behind the end, and `gone` where there is no such blob.
    """
    if offset > size:
        raise InvalidField("offset", seen=offset, expected=f"at most {size}, the bytes of the file")
    length = min(PIECE_BYTES, size - offset)
    try:
        return blobs.get_range(key, offset, length) if length else b""
    except BlobMissing as error:
        raise gone from error


def small(blobs: Blobs, key: str) -> bytes:
    """Read a blob whose key ends in the digest of its bytes. Raises WorkFailed."""
    try:
        data = blobs.get(key)
    except BadKey as error:
        raise _unnamed("blob", error) from error
    except BlobMissing as error:
        raise WorkFailed(f"the blob {key} is gone; run the recipe again, its stage will be made again") from error
    if bytes_digest(data).removeprefix("blake3:") not in key:
        raise WorkFailed(
            f"the blob {key} is damaged: its bytes have digest {bytes_digest(data)}; run the recipe again, its stage "
            f"will be made again"
        )
    return data


def named(blobs: Blobs, key: str, folder: Path) -> Path:
    """Fetch a blob whose key ends in the digest of its bytes, and a suffix, into a folder. Raises WorkFailed."""
    name = key.rpartition("/")[2]
    return blob(blobs, key, f"blake3:{name.partition('.')[0]}", folder / name)


def rejected(blobs: Blobs, decisions: str) -> frozenset[str]:
    """The ids that a filter left out; `decisions` is its blob, "" for none. Raises WorkFailed."""
    return _ids(blobs, decisions, decisions_file.decode) if decisions else frozenset()


def dropped(blobs: Blobs, clusters: str) -> frozenset[str]:
    """The ids that dedup left out; `clusters` is its blob. Raises WorkFailed."""
    return _ids(blobs, clusters, duplicates_file.decode)


def retracted(blobs: Blobs, key: str) -> frozenset[str]:
    """The ids of a list that FindRetracted of ingest named; "" for none. Raises WorkFailed."""
    if not key:
        return frozenset()
    try:
        return frozenset(str(each) for each in parse_json(small(blobs, key)))  # type: ignore[union-attr]
    except CorpusError as error:
        raise WorkFailed(f"the blob {key}: {error}") from error


def _ids(blobs: Blobs, key: str, decode: Callable[[bytes], pa.Table]) -> frozenset[str]:
    try:
        return frozenset(decode(small(blobs, key))["doc_id"].to_pylist())
    except CorpusError as error:
        raise WorkFailed(f"the blob {key}: {error}") from error


def shards(blobs: Blobs, entries: tuple[DocumentShardEntry, ...], scratch: Path) -> list[tuple[Path, str]]:
    """Fetch document shards; each local file with the digest of its bytes."""
    if isinstance(blobs, Prefetching):
        blobs.prefetch([entry.blob for entry in entries])
    return [
        (blob(blobs, entry.blob, entry.info.bytes_digest, scratch / f"{index}.parquet"), entry.info.bytes_digest)
        for index, entry in enumerate(entries)
    ]
