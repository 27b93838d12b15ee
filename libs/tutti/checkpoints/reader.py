"""Staging a checkpoint: fetched to a local folder whole, and only if every digest follows."""

from __future__ import annotations

from pathlib import Path

from tutti.backbone.blobs import BlobMissing, Blobs
from tutti.backbone.files import Files, RealFiles
from tutti.checkpoints.bodies import decode_body
from tutti.checkpoints.errors import CheckpointError, Damaged, Problem
from tutti.checkpoints.places import BlobEntry
from tutti.checkpoints.report import ChunkEntry
from tutti.checkpoints.staged import MANIFEST, StagedCheckpoint, open_staged, require_identity
from tutti.checkpoints.verification import check_bytes
from tutti.model.chunks import Layout
from tutti.records.errors import CorpusError


def stage(
    blobs: Blobs, manifest_key: str, folder: Path, *, identity: str = "", files: Files | None = None
) -> StagedCheckpoint:
    """Fetch a checkpoint into `folder`; what lies there already is kept where its bytes are right.

    The manifest is the last file, so a folder that has one is whole. Raises Damaged naming every blob and chunk,
    CheckpointError when the manifest is not that of `identity`, BlobError from the store.
    """
    seam = files or RealFiles()
    try:
        body = decode_body(blobs.get(manifest_key))
    except BlobMissing:
        raise Damaged(manifest_key, [Problem(manifest_key, "", "no such blob", "a manifest")]) from None
    except CheckpointError:
        raise
    except CorpusError as error:
        raise Damaged(manifest_key, [Problem(manifest_key, "", str(error), "a manifest")]) from error
    require_identity(body, manifest_key, identity)
    problems: list[Problem] = []
    for index, (blob, entries) in enumerate(zip(body.blobs, body.entries_by_blob, strict=True)):
        local = folder / f"{index}.bin"
        if not (local.exists() and not _problems(seam, local, blob, entries, body.layout)):
            problems += _fetch(blobs, seam, local, blob, entries, body.layout)
    if problems:
        raise Damaged(body.name, problems)
    blobs.fetch(manifest_key, folder / MANIFEST)
    return open_staged(folder, identity=body.identity)


def _fetch(
    blobs: Blobs, files: Files, local: Path, blob: BlobEntry, entries: tuple[ChunkEntry, ...], layout: Layout
) -> list[Problem]:
    try:
        blobs.fetch(blob.key, local)
    except BlobMissing:
        return [Problem(blob.key, "", "no such blob", blob.bytes_digest)]
    found = _problems(files, local, blob, entries, layout)
    if found:
        files.unlink(local)
    return found


def _problems(
    files: Files, local: Path, blob: BlobEntry, entries: tuple[ChunkEntry, ...], layout: Layout
) -> list[Problem]:
    if (size := files.size(local)) != blob.nbytes:
        return [Problem(blob.key, "", f"{size} bytes", f"{blob.nbytes} bytes")]
    return check_bytes(blob, entries, layout, lambda start, length: files.read(local, start, length))
