"""The dedup service: documents of an earlier dataset stand for what is like them, but those that are retracted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.identity import auth
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Home
from tutti.chassis.tasks import Pool, TaskWorker
from tutti.chassis.tasks_test import Bench, Inline
from tutti.chassis.work.work import publish, put_file, put_named
from tutti.contracts.common.v1 import STATE_DONE, Artifact, GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec, Documents, FindNearDuplicatesRequest
from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.corpus.documents import decisions
from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.dedup.clusters_test import NEARLY, PROSE, document
from tutti.dedup.onray_test import entry
from tutti.dedup.service import build
from tutti.dedup.settings import DedupSettings
from tutti.records.canonical import bytes_digest, canonical_json
from tutti.records.manifest import Kind
from tutti.staging import fetching

LOCAL, INLINE = DedupSettings(), Inline()
CALL = Call(role=auth.Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)


@dataclass
class Host(Bench):
    asked: DedupSettings = field(default_factory=DedupSettings)

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[Any]) -> Any:
        return self.asked


class World:
    """The service over blobs in a folder, with a pool of processes or none."""

    def __init__(self, folder: Path, settings: DedupSettings = LOCAL, pool: Pool = INLINE) -> None:
        self.folder = folder
        self.bench = Host(EmbeddedBlobs(folder / "blobs"), service="dedup", asked=settings, pool=pool)
        self.service = build(self.bench)
        self.bench.database.create(self.bench.metadata)
        api: Any = self.service.serves[0].api
        self.api = api

    def shards(self, *cut: Sequence[Document]) -> tuple[DocumentShardEntry, ...]:
        entries = []
        for documents in cut:
            data, info = encode_document_shard(documents)
            entries.append(entry(info))
            self.bench.blobs.put_if_absent(entries[-1].blob, data)
        return tuple(entries)

    def chosen(self, *documents: Document) -> Artifact:
        """A filter that kept all of these."""
        return self.filtered(self.shards(documents))

    def filtered(self, shards: tuple[DocumentShardEntry, ...], *rejected: Document) -> Artifact:
        """A filter that kept all of these but some."""
        told = ""
        if rejected:
            path = self.folder / "decisions.parquet"
            ids = sorted(each.doc_id for each in rejected)
            decisions.write(decisions.together(decisions.short([(each, 0) for each in ids], 1, "rule")), path)
            told = put_file(self.bench.blobs, "ingest/decisions", path)
        documents = sum(each.info.documents for each in shards)
        body = FilterBody(shards=shards, decisions=told, documents=documents, rejected=(), rejections="")
        return publish(self.bench.blobs, "ingest/filters", body.manifest(producer="test"), data_bytes=0)

    def ingested(self, *documents: Document) -> Documents:
        """Evaluation texts."""
        body = IngestBody(
            shards=self.shards(documents),
            measures=(),
            input_digest=bytes_digest(b""),
            files=1,
            documents=len(documents),
            rejected=(),
            rejections="",
            extraction_version=1,
            normalisation_version=1,
        )
        made = publish(self.bench.blobs, "ingest", body.manifest(producer="test"), data_bytes=0)
        return Documents(manifest_key=made.manifest_key, content_digest=made.content_digest)

    def dedup(self, name: str, chosen: Artifact, *against: Documents, **asked: Any) -> Dedup:
        wanted = {"near": 0.8, **asked}
        spec = DedupSpec(
            manifest_key=chosen.manifest_key, content_digest=chosen.content_digest, against=against, **wanted
        )
        self.api.CreateDedup(CreateDedupRequest(name=f"dedups/{name}", request_id=name, spec=spec), CALL)
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()
        made = self.api.GetDedup(GetRequest(name=f"dedups/{name}"), CALL)
        assert made.state == STATE_DONE, made.reason
        found: Dedup = made
        return found

    def retracted(self, *documents: Document) -> str:
        ids = sorted(each.doc_id for each in documents)
        return put_named(self.bench.blobs, "ingest/retracted", canonical_json(ids), ".json")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.bench.database.close()


def of(earlier: Dedup, retracted: str = "") -> Documents:
    result = earlier.result
    return Documents(manifest_key=result.manifest_key, content_digest=result.content_digest, retracted_key=retracted)


def test_an_earlier_document_that_is_retracted_stands_for_nothing(world: World) -> None:
    page, other = document("page", PROSE), document("other", topics["with"])
    later = world.chosen(document("copy", NEARLY), document("mine", topics["if"]), document("same", topics["with"]))
    earlier = world.dedup("earlier", world.chosen(page, other))
    kept = world.dedup("with-it", later, of(earlier))
    assert (kept.documents, kept.earlier) == (1, 2)
    without = world.dedup("without", later, of(earlier, world.retracted(page)))
    assert (without.documents, without.earlier) == (2, 1)
    never = world.dedup("never", later, of(world.dedup("earlier-never", world.chosen(other))))
    assert clusters(world, without) == clusters(world, never) != clusters(world, kept)


def test_near_duplicates_among_conversations_are_named(world: World) -> None:
    contents = (PROSE, NEARLY, topics["with"])
    conversations = [Conversation((Message(Role.USER, each),)) for each in contents]
    blob = put_named(world.bench.blobs, "ingest/conversations", to_lines(conversations), ".jsonl")
    [found] = world.api.FindNearDuplicates(FindNearDuplicatesRequest(blob=blob, near=0.8), CALL).duplicates
    assert (found.of, found.digest) == tuple(sorted(each.digest for each in conversations[:2]))
    assert 0.8 <= found.similarity < 1
    for near in (0, 0.69, 1.1):
        with pytest.raises(InvalidField, match=r"near: expected a similarity from 0\.7 to 1"):
            world.api.FindNearDuplicates(FindNearDuplicatesRequest(blob=blob, near=near), CALL)
    with pytest.raises(Refused, match="is gone"):
        world.api.FindNearDuplicates(FindNearDuplicatesRequest(blob="ingest/conversations/none.jsonl", near=0.8), CALL)


def clusters(world: World, made: Dedup) -> str:
    """The name, by content, of who stands for whom."""
    found = fetching.manifest(world.bench.blobs, made.result.manifest_key, made.result.content_digest, Kind.DEDUP)
    return DedupBody.read(found).clusters
