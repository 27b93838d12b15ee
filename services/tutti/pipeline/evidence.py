"""Evidence that a stage's result is still there: its manifest and every blob that it names.

Promises: what is missing, shorter or another content is named; a result is reused only without such a finding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.manifest import CheckpointBody
from tutti.corpus.dataset import DatasetBody
from tutti.corpus.errors import CorpusError
from tutti.corpus.manifest import Kind, Manifest
from tutti.corpus.stages import DedupBody, IngestBody
from tutti.pipeline.stages import Result, StageName


@dataclass(frozen=True)
class Expected:
    """A blob that a manifest names; `size` in bytes where the manifest says so."""

    key: str
    size: int | None = None


def missing(blobs: Blobs, stage: StageName, result: Result) -> str:
    """What is wrong with a result, in words; "" when everything is there. Raises BlobsUnavailable."""
    try:
        data = blobs.get(result.manifest_key)
    except BlobMissing:
        return f"{result.manifest_key} is gone"
    try:
        digest, named = _named(stage, data)
    except (CorpusError, CheckpointError) as error:
        return f"{result.manifest_key} cannot be read: {error}"
    if digest != result.content_digest:
        return f"{result.manifest_key} is {digest}, expected {result.content_digest}"
    for expected in named:
        try:
            found = blobs.stat(expected.key)
        except BlobMissing:
            return f"{expected.key} is gone"
        if expected.size is not None and found.size != expected.size:
            return f"{expected.key} has {found.size} bytes, expected {expected.size}"
    return ""


def _named(stage: StageName, data: bytes) -> tuple[str, list[Expected]]:
    if stage is StageName.TRAIN:
        checkpoint = CheckpointBody.decode(data)
        return checkpoint.state_digest, [Expected(blob.key, blob.nbytes) for blob in checkpoint.blobs]
    kinds = {
        StageName.INGEST: Kind.INGEST,
        StageName.DEDUP: Kind.DEDUP,
        StageName.TOKENIZATION: Kind.DATASET,
    }
    manifest = Manifest.decode(data, expected=kinds[stage])
    return manifest.content_digest, list(_blobs(stage, manifest))


def _blobs(stage: StageName, manifest: Manifest) -> Iterator[Expected]:
    if stage is StageName.TOKENIZATION:
        dataset = DatasetBody.read(manifest)
        for split in (dataset.train, dataset.validation):
            yield from (Expected(shard.blob, shard.bytes) for shard in split.shards)
        yield Expected(f"tokenization/tokenizers/{dataset.tokenizer_version.removeprefix('blake3:')}.json")
        return
    body = IngestBody.read(manifest) if stage is StageName.INGEST else DedupBody.read(manifest)
    yield from (Expected(shard.blob, shard.info.bytes) for shard in body.shards)
    yield Expected(body.rejections if isinstance(body, IngestBody) else body.clusters)
