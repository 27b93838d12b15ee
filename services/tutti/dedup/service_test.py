"""The dedup service: documents of an earlier dataset stand for what is like them, but those that are retracted."""

from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis import staging
from tutti.chassis.auth import Role
from tutti.chassis.call import Call
from tutti.chassis.tasks import TaskWorker
from tutti.chassis.tasks_test import Bench
from tutti.chassis.work import publish, put_named
from tutti.contracts.common.v1 import STATE_DONE, Artifact, GetRequest
from tutti.contracts.dedup.v1 import CreateDedupRequest, Dedup, DedupSpec, Documents
from tutti.corpus.canonical import canonical_json
from tutti.corpus.documents import Document
from tutti.corpus.documentshard import encode_document_shard
from tutti.corpus.manifest import Kind
from tutti.corpus.stages import DedupBody, FilterBody
from tutti.dedup.clusters_test import NEARLY, PROSE, document
from tutti.dedup.onray_test import entry
from tutti.dedup.rpc import DedupApi
from tutti.dedup.service import build

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)


class World:
    def __init__(self, folder: Path) -> None:
        self.bench = Bench(EmbeddedBlobs(folder / "blobs"), service="dedup")
        self.service = build(self.bench)
        self.bench.database.create(self.bench.metadata)
        api = self.service.serves[0].api
        assert isinstance(api, DedupApi)
        self.api = api

    def chosen(self, *documents: Document) -> Artifact:
        """A filter that kept all of these."""
        data, info = encode_document_shard(documents)
        shard = entry(info)
        self.bench.blobs.put_if_absent(shard.blob, data)
        body = FilterBody(shards=(shard,), decisions="", documents=len(documents), rejected=(), rejections="")
        return publish(self.bench.blobs, "ingest/filters", body.manifest(producer="test"), data_bytes=0)

    def dedup(self, name: str, chosen: Artifact, *against: Documents) -> Dedup:
        spec = DedupSpec(
            manifest_key=chosen.manifest_key, content_digest=chosen.content_digest, near=0.8, against=against
        )
        self.api.CreateDedup(CreateDedupRequest(name=f"dedups/{name}", request_id=name, spec=spec), CALL)
        TaskWorker(self.bench, {kind.name: kind for kind in self.service.tasks}, holder="a").step()
        made = self.api.GetDedup(GetRequest(name=f"dedups/{name}"), CALL)
        assert made.state == STATE_DONE, made.reason
        return made

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


def clusters(world: World, made: Dedup) -> str:
    """The name, by content, of who stands for whom."""
    found = staging.manifest(world.bench.blobs, made.result.manifest_key, made.result.content_digest, Kind.DEDUP)
    return DedupBody.read(found).clusters
