"""Evidence that a stage's result is still there: its manifest and every blob that it names.

Promises: what is missing, damaged or another content is named; a result is reused only without such a finding. Bytes
are read a piece at a time. Of the document shards that filter and dedup refer to the sizes are compared, as the bytes
were read for ingest; of the checkpoints before the last too, since only the last one is what a training was to make.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from blake3 import blake3

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.manifest import CheckpointBody
from tutti.corpus.canonical import content_digest, named, parse_json
from tutti.corpus.dataset import DatasetBody
from tutti.corpus.errors import CorpusError
from tutti.corpus.manifest import Kind, Manifest
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.stages import CrawlBody, DedupBody, FilterBody, IngestBody
from tutti.pipeline.stages import Result, StageName

_PIECE = 8 << 20
MAX_TOKENIZER_BYTES = 256 << 20


@dataclass(frozen=True)
class Expected:
    """A blob that a manifest names: its size in bytes and the digest of its bytes, where they are to be compared."""

    key: str
    size: int | None = None
    digest: str = ""

    def lacks(self, blobs: Blobs) -> str:
        """What is wrong with it; "" when nothing is."""
        try:
            size = blobs.stat(self.key).size
            if self.size is not None and size != self.size:
                return f"{self.key} has {size} bytes, expected {self.size}"
            seen = _bytes_digest(blobs, self.key, size) if self.digest else ""
        except BlobMissing:
            return f"{self.key} is gone"
        return f"{self.key} is damaged: its bytes are {seen}, expected {self.digest}" if seen != self.digest else ""


@dataclass(frozen=True)
class ExpectedTokenizer:
    """The tokenizer of a dataset, which is named by the content of its JSON."""

    version: str

    def lacks(self, blobs: Blobs) -> str:
        key = f"tokenization/tokenizers/{self.version.removeprefix('blake3:')}.json"
        try:
            if (size := blobs.stat(key).size) > MAX_TOKENIZER_BYTES:
                return f"{key} has {size} bytes, expected at most {MAX_TOKENIZER_BYTES}"
            seen = content_digest(parse_json(blobs.get(key)), kind="tokenizer")
        except BlobMissing:
            return f"{key} is gone"
        except CorpusError as error:
            return f"{key} is damaged: {error}"
        return f"{key} is damaged: its content is {seen}, expected {self.version}" if seen != self.version else ""


Checked = Expected | ExpectedTokenizer


def missing(blobs: Blobs, stage: StageName, result: Result, before: Iterable[Result] = ()) -> str:
    """What is wrong with a result, in words; "" when everything is there. Raises BlobsUnavailable.

    `before` are the checkpoints that a training made on the way.
    """
    return _lacks(blobs, stage, result, thorough=True) or next(
        (lacks for each in before if (lacks := _lacks(blobs, stage, each, thorough=False))), ""
    )


def written(blobs: Blobs, stage: StageName, result: Result) -> int:
    """Bytes that a stage wrote, by its manifest; not the documents that filter and dedup only refer to.

    Raises BlobMissing, CorpusError, CheckpointError, BlobsUnavailable.
    """
    data = blobs.get(result.manifest_key)
    _, listed = _listed(stage, data, thorough=False)
    kept = [each for each in listed if isinstance(each, Expected)]
    if stage in (StageName.FILTER, StageName.DEDUP):
        kept = [each for each in kept if each.size is None]
    return len(data) + sum(each.size if each.size is not None else blobs.stat(each.key).size for each in kept)


def _lacks(blobs: Blobs, stage: StageName, result: Result, *, thorough: bool) -> str:
    try:
        data = blobs.get(result.manifest_key)
    except BlobMissing:
        return f"{result.manifest_key} is gone"
    try:
        digest, listed = _listed(stage, data, thorough=thorough)
    except (CorpusError, CheckpointError) as error:
        return f"{result.manifest_key} cannot be read: {error}"
    if digest != result.content_digest:
        return f"{result.manifest_key} is {digest}, expected {result.content_digest}"
    return next((lacks for expected in listed if (lacks := expected.lacks(blobs))), "")


def _bytes_digest(blobs: Blobs, key: str, size: int) -> str:
    state = blake3()
    for start in range(0, size, _PIECE):
        state.update(blobs.get_range(key, start, min(_PIECE, size - start)))
    return named(state)


def _listed(stage: StageName, data: bytes, *, thorough: bool) -> tuple[str, list[Checked]]:
    """The content of a manifest, and what it names; of a checkpoint's blobs with their digests if `thorough`."""
    if stage is StageName.TRAIN:
        checkpoint = CheckpointBody.decode(data)
        return checkpoint.state_digest, [
            Expected(blob.key, blob.nbytes, blob.bytes_digest if thorough else "") for blob in checkpoint.blobs
        ]
    kinds = {
        StageName.CRAWL: Kind.CRAWL,
        StageName.INGEST: Kind.INGEST,
        StageName.FILTER: Kind.FILTER,
        StageName.EVALUATION: Kind.INGEST,
        StageName.DEDUP: Kind.DEDUP,
        StageName.TOKENIZATION: Kind.DATASET,
        StageName.INDEX: Kind.INDEX,
        StageName.SAMPLE: Kind.SAMPLE,
    }
    manifest = Manifest.decode(data, expected=kinds[stage])
    return manifest.content_digest, list(_blobs(stage, manifest))


def _blobs(stage: StageName, manifest: Manifest) -> Iterator[Checked]:
    if stage is StageName.TOKENIZATION:
        dataset = DatasetBody.read(manifest)
        for split in (dataset.train, dataset.validation):
            yield from (Expected(shard.blob, shard.bytes, shard.bytes_digest) for shard in split.shards)
        yield ExpectedTokenizer(dataset.tokenizer_version)
    elif stage is StageName.INDEX:
        index = IndexBody.read(manifest)
        yield Expected(index.blob, index.info.bytes, index.info.bytes_digest)
    elif stage is StageName.CRAWL:
        crawl = CrawlBody.read(manifest)
        yield from map(_content_named, (*crawl.archives, *crawl.earlier))
    elif stage in (StageName.INGEST, StageName.EVALUATION):
        ingest = IngestBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes, shard.info.bytes_digest) for shard in ingest.shards)
        yield from map(_content_named, (ingest.rejections, *ingest.measures))
    elif stage is not StageName.SAMPLE:  # whose texts are in its manifest
        body = FilterBody.read(manifest) if stage is StageName.FILTER else DedupBody.read(manifest)
        yield from (Expected(shard.blob, shard.info.bytes) for shard in body.shards)
        beside = (body.decisions,) if isinstance(body, FilterBody) else (body.decisions, body.clusters, body.cuts)
        yield from (_content_named(key) for key in beside if key)


def _content_named(key: str) -> Expected:
    """A blob whose key ends in the digest of its bytes."""
    return Expected(key, digest=f"blake3:{key.rpartition('/')[2].partition('.')[0]}")
