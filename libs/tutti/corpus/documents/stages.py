"""The bodies of the manifests before the dataset: pages that were visited, documents that were read, chosen, kept.

Each of documents lists the document shards in full, so that the next stage needs no other manifest.
"""

from __future__ import annotations

from dataclasses import dataclass

from tutti.corpus.documents.documentshard import DocumentShardInfo
from tutti.corpus.tokens.dataset import Rejected
from tutti.records.canonical import JsonValue
from tutti.records.fields import Digest, Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import written, written_later


@dataclass(frozen=True, slots=True)
class DocumentShardEntry:
    """A document shard and where its bytes lie."""

    blob: str
    info: DocumentShardInfo

    @property
    def resource(self) -> str:
        return f"document-shards/{self.info.content_digest.removeprefix('blake3:')}"


def _parents(shards: tuple[DocumentShardEntry, ...]) -> tuple[str, ...]:
    return tuple(sorted({shard.resource for shard in shards}))


@dataclass(frozen=True, slots=True)
class CrawlBody:
    """The result of a crawl: archives (blobs of WARC) in the order of the crawl, and the number of URLs by outcome.

    `site_digest` names URLs and answers whenever they were asked; archives hold the time too. `earlier` are archives of
    crawls before, which hold the bodies of answers that had not changed; without them they are not in a manifest.
    """

    archives: tuple[str, ...]
    site_digest: Digest
    counts: tuple[tuple[str, int], ...]
    earlier: tuple[str, ...] = ()

    def manifest(self, *, producer: str) -> Manifest:
        counts: JsonValue = [{"what": what, "pages": pages} for what, pages in self.counts]
        body: dict[str, JsonValue] = {
            "archives": list(self.archives),
            "site_digest": self.site_digest,
            "counts": counts,
            **written_later(self),
        }
        if self.earlier:
            body["earlier"] = list(self.earlier)
        return Manifest(kind=Kind.CRAWL, body=body, parents=(), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> CrawlBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        fields = Fields.of(manifest, Kind.CRAWL)
        counts = tuple((item.text("what"), item.count("pages")) for item in fields.objects("counts"))
        body = fields.record(cls, counts=counts)
        manifest.require_read(body.manifest(producer=manifest.producer).body)
        return body


@dataclass(frozen=True, slots=True)
class ClassifierBody:
    """The result of a training: the blob of a classifier, and the digest of the labelled folder it was trained on."""

    model: str
    source_digest: str

    def manifest(self, *, producer: str) -> Manifest:
        body: dict[str, JsonValue] = written(self)
        return Manifest(kind=Kind.CLASSIFIER, body=body, parents=(), producer=producer)


@dataclass(frozen=True, slots=True)
class IngestBody:
    """The result of reading: shards, and the number of files left out for each reason (`rejections` is the blob that
    lists them).

    `measures` are the blobs of what was measured of the documents of each shard (none in version 0.1); `masked`: how
    often personal data of each kind was masked.
    """

    shards: tuple[DocumentShardEntry, ...]
    measures: tuple[str, ...]
    input_digest: Digest
    files: int
    documents: int
    rejected: tuple[Rejected, ...]
    rejections: str
    extraction_version: int
    normalisation_version: int
    masked: tuple[tuple[str, int], ...] = ()

    def manifest(self, *, producer: str) -> Manifest:
        body: dict[str, JsonValue] = written(self)
        body["masked"] = [{"kind": kind, "places": places} for kind, places in self.masked]
        return Manifest(kind=Kind.INGEST, body=body, parents=_parents(self.shards), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> IngestBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        fields = Fields.of(manifest, Kind.INGEST)
        masked = tuple((item.text("kind"), item.count("places")) for item in fields.objects("masked", missing=()))
        body = fields.record(cls, measures=tuple(fields.texts("measures", missing=())), masked=masked)
        manifest.require_read(body.manifest(producer=manifest.producer).body)
        return body


@dataclass(frozen=True, slots=True)
class FilterBody:
    """The result of a filter: all documents of the shards except those that `decisions` (a blob, "" for none) rejects.

    `rejected` counts by reason what was left out until here, the rules of the filter among them.
    """

    shards: tuple[DocumentShardEntry, ...]
    decisions: str
    documents: int
    rejected: tuple[Rejected, ...]
    rejections: str

    def manifest(self, *, producer: str) -> Manifest:
        body: dict[str, JsonValue] = written(self)
        return Manifest(kind=Kind.FILTER, body=body, parents=_parents(self.shards), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> FilterBody:
        """Raises InvalidManifest naming the field that is missing or wrong.

        A run that version 0.1 began has no filter: of the manifest of an ingest all documents are chosen.
        """
        if manifest.kind == Kind.INGEST:
            read = IngestBody.read(manifest)
            return cls(read.shards, "", read.documents, read.rejected, read.rejections)
        body = Fields.of(manifest, Kind.FILTER).record(cls)
        manifest.require_read(body.manifest(producer=manifest.producer).body)
        return body


@dataclass(frozen=True, slots=True)
class DedupBody:
    """The result of dedup: all documents of the shards except those that `decisions` or `clusters` (blobs) leave out.

    `compared` are the manifests of evaluation texts and of the dedups of earlier datasets; how many documents were left
    out for those, `contaminated` and `earlier` (which are `duplicates` too), is in no manifest of a dedup without them.
    `cuts` (a blob, "" for none) is what is left out of the texts of those that were kept: so many units and bytes of
    so many documents, and lines that were cleaned away. None of it is in the manifest of a dedup that cuts nothing out,
    nor `cleaned_lines` in that of one that cleans none away.
    """

    shards: tuple[DocumentShardEntry, ...]
    decisions: str
    clusters: str
    documents: int
    duplicates: int
    near_duplicates: int
    cluster_count: int
    rejected: tuple[Rejected, ...]
    rejections: str
    contaminated: int = 0
    earlier: int = 0
    compared: tuple[str, ...] = ()
    cuts: str = ""
    cut_documents: int = 0
    cut_units: int = 0
    cut_bytes: int = 0
    cleaned_lines: int = 0

    def manifest(self, *, producer: str) -> Manifest:
        body: dict[str, JsonValue] = written(self)
        if not self.compared:
            body = {key: value for key, value in body.items() if key not in ("contaminated", "earlier", "compared")}
        if not self.cuts:
            body = {key: value for key, value in body.items() if not key.startswith("cut")}
        if not self.cleaned_lines:
            del body["cleaned_lines"]
        return Manifest(kind=Kind.DEDUP, body=body, parents=_parents(self.shards), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> DedupBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        fields = Fields.of(manifest, Kind.DEDUP)
        near = fields.count("near_duplicates", missing=0)  # version 0.1 had exact ones alone
        body = fields.record(cls, decisions=fields.text("decisions", missing=""), near_duplicates=near)
        manifest.require_read(body.manifest(producer=manifest.producer).body)
        return body
