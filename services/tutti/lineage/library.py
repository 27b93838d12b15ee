"""The library: manifests and shards of datasets and checkpoints, fetched once, verified, kept open.

Promises: what it hands out was checked against its digest; a local copy has no name any more once it is open; whoever
reads one thing waits for nobody who reads another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import Refused, declare
from tutti.checkpoints.manifest import CheckpointBody
from tutti.corpus.documents import cuts, decisions, duplicates
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.corpus.spans.index import Index
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody, Split, tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.lineage.kept import Kept
from tutti.lineage.sightings import Shelf
from tutti.native.arrays import pq
from tutti.records.canonical import bytes_digest, file_digest, parse_json
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest

T = TypeVar("T")
KEPT = 64
INDEX_BYTES = 8 << 30  # of local disk, or one index that alone is larger

declare(
    {
        "BLOB_DAMAGED": "a blob does not match the digest in its manifest; run its stage again",
        "BLOB_MISSING": "a blob is missing; run its stage again to trace through it",
        "MANIFEST_DAMAGED": "a manifest is damaged; run its stage again",
    }
)


class BlobGone(Refused):
    """A blob that a manifest names is gone, by accident or since a page in it was retracted."""

    def __init__(self, key: str) -> None:
        super().__init__("BLOB_MISSING", f"the blob {key} is gone; run its stage again to trace through it")
        self.key = key


@dataclass(frozen=True)
class DocumentRow:
    """A document without its text; `shard` is the resource name of the document shard that holds it."""

    doc_id: str
    source: str
    title: str
    shard: str


@dataclass(frozen=True)
class Decision:
    """The reason why a filter rejected a document; the rule `language` has no value and no threshold."""

    rule: str
    value: float | None
    threshold: float | None
    language: str

    @property
    def seen(self) -> str:
        """The value that the rule measured, in words."""
        if self.rule == decisions.RETRACTED_RULE:
            return "on request"
        return f"value {self.value:.4g}, threshold {self.threshold:.4g}" if self.value is not None else self.language

    def __str__(self) -> str:
        return f"{self.rule}, {self.seen}"


@dataclass(frozen=True)
class OpenDataset:
    version: str
    body: DatasetBody
    train: Shelf
    validation: Shelf


class Library:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._kept, self._indexes = Kept(KEPT), Kept(INDEX_BYTES)

    def checkpoint(self, key: str) -> CheckpointBody:
        return self.once(key, lambda: CheckpointBody.decode(self._bytes(key)))

    def ingest(self, key: str) -> IngestBody:
        return self.once(key, lambda: IngestBody.read(Manifest.decode(self._bytes(key), expected=Kind.INGEST)))

    def dedup(self, key: str) -> DedupBody:
        return self.once(key, lambda: DedupBody.read(Manifest.decode(self._bytes(key), expected=Kind.DEDUP)))

    def filter(self, key: str) -> FilterBody:
        return self.once(key, lambda: FilterBody.read(Manifest.decode(self._bytes(key), expected=Kind.FILTER)))

    def dataset(self, key: str) -> OpenDataset:
        return self.once(key, lambda: self._open(key))

    def index(self, key: str, dataset: str) -> Index:
        """The index of a dataset, by the key of its manifest."""
        indexed, body = self.indexed(key)
        if indexed != dataset:
            raise Refused("MANIFEST_DAMAGED", f"{key}: it is the index of {indexed}, not of {dataset}; run it again")

        def opened() -> Index:
            with self._fetched(body.blob, body.info.bytes_digest) as path:
                return Index.open(path)  # the map keeps the bytes until nobody uses the index any more

        return self.once(body.blob, opened, kept=self._indexes, weight=body.info.bytes)

    def indexed(self, key: str) -> tuple[str, IndexBody]:
        """The dataset and the content of the manifest of an index."""

        def read() -> tuple[str, IndexBody]:
            manifest = Manifest.decode(self._bytes(key), expected=Kind.INDEX)
            return ", ".join(manifest.parents), IndexBody.read(manifest)

        return self.once(key, read)

    def tokenizer(self, name: str) -> BytePairTokenizer:
        """A tokenizer by the name of its resource."""
        version = f"blake3:{name.removeprefix('tokenizers/')}"
        key = tokenizer_key(version)

        def read() -> BytePairTokenizer:
            try:
                return BytePairTokenizer.load(self._bytes(key), expected_version=version)
            except TokenizerError as error:
                raise Refused("BLOB_DAMAGED", f"the blob {key}: {error}; run its stage again") from error

        return self.once(key, read)

    def json(self, key: str) -> Any:
        """A list beside a manifest, whose key is named by the digest of its bytes."""

        return self.once(key, lambda: parse_json(self._named(key)))

    def decisions(self, key: str) -> dict[str, Decision]:
        """By rejected document: what a filter decided."""

        def read() -> dict[str, Decision]:
            doc_ids, *rest = (column.to_pylist() for column in decisions.decode(self._named(key)).columns)
            return {doc_id: Decision(*each) for doc_id, *each in zip(doc_ids, *rest, strict=True)}

        return self.once(key, read)

    def duplicates(self, key: str) -> dict[str, tuple[str, str, float]]:
        """By dropped document: which stands for it, how it is a duplicate, how similar its closest link is."""

        def read() -> dict[str, tuple[str, str, float]]:
            doc_ids, *rest = (column.to_pylist() for column in duplicates.decode(self._named(key)).columns)
            return dict(zip(doc_ids, zip(*rest, strict=True), strict=True))

        return self.once(key, read)

    def cuts(self, key: str) -> dict[str, int]:
        """By document that stays: how many bytes of its text were cut out."""
        return self.once(key, lambda: cuts.sizes(self._named(key)))

    def documents(self, entry: DocumentShardEntry) -> list[DocumentRow]:
        """The documents of a shard, without texts."""

        def read() -> list[DocumentRow]:
            with self._fetched(entry.blob, entry.info.bytes_digest) as path:
                table = pq.read_table(path, columns=["doc_id", "source", "title"])  # type: ignore[no-untyped-call]
            ids, sources, titles = (table[name].to_pylist() for name in ("doc_id", "source", "title"))
            return [
                DocumentRow(doc_id, source, title, entry.resource)
                for doc_id, source, title in zip(ids, sources, titles, strict=True)
            ]

        return self.once(f"documents of {entry.blob}", read)

    def text(self, entry: DocumentShardEntry, doc_id: str) -> str:
        """The text of a document that the shard holds."""
        with self._fetched(entry.blob, entry.info.bytes_digest) as path:
            wanted = [("doc_id", "=", doc_id)]
            table = pq.read_table(path, columns=["text"], filters=wanted)  # type: ignore[no-untyped-call]
        return str(table["text"][0].as_py())

    def _open(self, key: str) -> OpenDataset:
        manifest = Manifest.decode(self._bytes(key), expected=Kind.DATASET)
        body, version = DatasetBody.read(manifest), manifest.content_digest
        for entry in (*body.train.shards, *body.validation.shards):
            self._settled(entry.blob, partial(self._blobs.stat, entry.blob))  # before anything is fetched
        return OpenDataset(version, body, self._shelf(version, body.train), self._shelf(version, body.validation))

    def _shelf(self, version: str, split: Split) -> Shelf:
        shards = []
        for entry in split.shards:
            with self._fetched(entry.blob, entry.bytes_digest) as path:
                shards.append(TokenShard(path))  # the map keeps the bytes until the shard is closed
        return Shelf(version, tuple(shards))

    @contextmanager
    def _fetched(self, key: str, digest: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="tutti-lineage-") as folder:
            path = Path(folder) / key.rpartition("/")[2]
            self._settled(key, lambda: self._blobs.fetch(key, path))
            _require_digest(key, file_digest(path), digest)
            yield path

    def _named(self, key: str) -> bytes:
        """A blob whose key is named by the digest of its bytes."""
        data = self._bytes(key)
        _require_digest(key, bytes_digest(data), f"blake3:{Path(key).stem}")
        return data

    def _bytes(self, key: str) -> bytes:
        return self._settled(key, lambda: self._blobs.get(key))

    def _settled(self, key: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except BlobMissing as error:
            raise BlobGone(key) from error

    def once(self, key: str, make: Callable[[], T], *, kept: Kept | None = None, weight: int = 1) -> T:
        """Return the cached result of `make`, or call it; the key identifies the result."""
        try:
            return (kept or self._kept).once(key, make, weight=weight)
        except CorpusError as error:
            raise Refused("MANIFEST_DAMAGED", f"{key} does not hold: {error}; run its stage again") from error


def _require_digest(key: str, seen: str, expected: str) -> None:
    if seen != expected:
        raise Refused("BLOB_DAMAGED", f"the blob {key} has digest {seen}, expected {expected}; run its stage again")
