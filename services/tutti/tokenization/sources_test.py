"""The files that a dataset was made of can be read back, a piece at a time, and nothing else."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import InvalidField, NotFound, Refused
from tutti.chassis.store.resources import Resource
from tutti.chassis.tasks_test import Bench
from tutti.chassis.work.work import Work, publish, put_named
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.tokenization.v1 import Dataset, Tokenization, TokenizationSpec
from tutti.corpus.documents.documentshard import DocumentShardInfo
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, IngestBody
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.records.canonical import bytes_digest
from tutti.staging import fetching
from tutti.tokenization.sources import Sources

NAME = "datasets/d"
DOCUMENTS, HELD_OUT = b"a document shard", b"tokens held out"


class World:
    def __init__(self, folder: Any) -> None:
        self.bench = Bench(EmbeddedBlobs(folder), service="tokenization")
        datasets: Resource[Dataset] = Resource(self.bench.metadata, "datasets", Dataset)
        work = Work(self.bench, "tokenizations", Tokenization, cast(Callable[..., Any], None), "test-1")
        self.bench.database.create(self.bench.metadata)
        self.work, self.datasets, self.sources = work, datasets, Sources(self.bench, work, datasets)
        blobs = self.bench.blobs
        self.clusters = put_named(blobs, "dedup/clusters", b"[]", ".json")
        held_out = put_named(blobs, "tokenization/token-shards", HELD_OUT, ".bin")
        tokens = bytes_digest(HELD_OUT)
        entry = ShardEntry(tokens, held_out, len(HELD_OUT), tokens, 1, 1, 0, 1, "a", "a")
        body = DatasetBody(tokens, 300, 1, 8, Split((), 7, 0, 60, 70), Split((entry,), 1, 1, 9, 10))
        made = publish(blobs, "tokenization", body.manifest(parents=(), producer="test"), data_bytes=0)
        dataset = Dataset(name=NAME, manifest_key=made.manifest_key, content_digest=made.content_digest)
        self.bench.units.run(lambda unit: datasets.create(unit, dataset))
        self.key = self.tokenized("t", DOCUMENTS)

    def tokenized(self, name: str, documents: bytes, measures: str = "") -> str:
        """The dataset is made of these documents by a tokenization of this name; the key of their blob. `measures`: the
        key of what was measured of them, "" where nothing was.
        """
        blobs, digest = self.bench.blobs, bytes_digest(documents)
        key = put_named(blobs, "ingest/document-shards", documents, ".parquet")
        shard = DocumentShardEntry(key, DocumentShardInfo(digest, digest, len(documents), 9, 90, "a", "b"))
        kept = DedupBody((shard,), "", self.clusters, 8, 1, 0, 1, (), "ingest/rejections/x.json")
        dedup = publish(blobs, "dedup", kept.manifest(producer="test"), data_bytes=0)
        spec = TokenizationSpec(manifest_key=dedup.manifest_key, content_digest=dedup.content_digest)
        if measures:
            body = IngestBody((shard,), (measures,), digest, 1, 9, (), "ingest/rejections/x.json", 1, 1)
            made = publish(blobs, "ingest", body.manifest(producer="test"), data_bytes=0)
            spec.measures_key, spec.measures_digest = made.manifest_key, made.content_digest
        done = Tokenization(name=f"tokenizations/{name}", spec=spec, state=STATE_DONE, dataset=NAME)
        self.bench.units.run(lambda unit: self.work.resource.create(unit, done))
        return key


@pytest.fixture
def world(tmp_path: Any) -> World:
    return World(tmp_path)


def test_the_files_of_a_dataset_are_its_documents_what_was_left_out_and_what_is_held_out(world: World) -> None:
    found = world.sources.files(NAME)
    assert [(each.holds, each.bytes) for each in found.files] == [
        ("documents", len(DOCUMENTS)),
        ("duplicates", 2),
        ("validation", len(HELD_OUT)),
    ]
    assert (found.documents, found.validation_documents, found.text_bytes) == (7, 1, 80)


def test_a_file_is_read_piece_by_piece_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PIECE_BYTES", 5)
    read = b""
    while piece := world.sources.read(NAME, world.key, len(read)):
        assert len(piece) <= 5
        read += piece
    assert read == DOCUMENTS


def test_what_is_no_part_of_a_dataset_is_not_read(world: World) -> None:
    other = put_named(world.bench.blobs, "ingest/document-shards", b"of another dataset", ".parquet")
    for name, key in ((NAME, other), (NAME, "../tokens"), ("datasets/none", world.key)):
        with pytest.raises(NotFound):
            world.sources.read(name, key, 0)
    with pytest.raises(InvalidField, match="offset"):
        world.sources.read(NAME, world.key, len(DOCUMENTS) + 1)


@pytest.mark.parametrize("gone", ["key", "clusters"])
def test_a_dataset_whose_documents_are_gone_says_so(world: World, gone: str) -> None:
    world.bench.blobs.delete(getattr(world, gone))
    with pytest.raises(Refused, match="is gone; run") as refused:
        world.sources.read(NAME, world.key, 0)
    assert refused.value.reason == "SOURCES_GONE"


@pytest.mark.parametrize("gone", [0, 1])
def test_a_dataset_that_two_runs_made_is_read_back_from_the_one_whose_documents_are_there(
    world: World, gone: int
) -> None:
    texts = [DOCUMENTS, b"the same texts in another shard"]
    keys = [world.key, world.tokenized("u", texts[1])]
    world.bench.blobs.delete(keys[gone])
    assert [each.key for each in world.sources.files(NAME).files if each.holds == "documents"] == [keys[1 - gone]]
    assert world.sources.read(NAME, keys[1 - gone], 0) == texts[1 - gone]


def test_what_tells_the_languages_is_read_with_it_as_long_as_it_is_there(world: World) -> None:
    keys = [put_named(world.bench.blobs, "ingest/measures", data, ".parquet") for data in (b"rows", b"other rows")]
    for name, key in zip("uv", keys, strict=True):
        world.tokenized(name, DOCUMENTS, key)

    def told() -> list[str]:
        """As a service that has just begun lists them."""
        sources = Sources(world.bench, world.work, world.datasets)
        return [each.key for each in sources.files(NAME).files if each.holds == "measures"]

    assert told() == keys[:1]
    assert world.sources.read(NAME, keys[0], 0) == b"rows"
    for key, left in zip(keys, (keys[1:], []), strict=True):
        world.bench.blobs.delete(key)
        assert told() == left
    assert world.sources.read(NAME, world.key, 0) == DOCUMENTS


def test_of_a_dataset_whose_documents_are_gone_wherever_they_were_a_blob_is_named(world: World) -> None:
    for key in (world.key, world.tokenized("u", b"the same texts in another shard")):
        world.bench.blobs.delete(key)
    with pytest.raises(Refused, match=f"{world.key} is gone; run") as refused:
        world.sources.files(NAME)
    assert refused.value.reason == "SOURCES_GONE"
