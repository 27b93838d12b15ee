"""What lineage promises when manifests are shared, missing, damaged or gone."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from pyarrow import RecordBatch
from pydantic import BaseModel
from sqlalchemy import MetaData, select

from tutti.backbone import Blobs, Clock, Database, ManualClock, Randomness, SeededRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.chassis.errors import NotFound, Refused
from tutti.chassis.rpc.references import Guarded
from tutti.chassis.runtime.parts import assemble
from tutti.chassis.service import Finding, Home
from tutti.chassis.store.tables import shared
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks import Pool
from tutti.chassis.work.work import publish, put_file, put_named
from tutti.contracts.admin.v1 import ListChangesRequest, ListChangesResponse
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
)
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Filter, Ingest
from tutti.contracts.pipeline.v1 import ListRunsResponse, Run, RunSpec, Stage, StageInput
from tutti.corpus.documents import decisions, duplicates
from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.documents.documentshard import encode_document_shard
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.corpus.spans.building import build as build_index
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.tokenshard import TokenRun, encode_token_shard
from tutti.lineage import graph
from tutti.lineage.folding import REST
from tutti.lineage.graph import Edge, Vertex, Walk
from tutti.lineage.library import Library
from tutti.lineage.rpc import LineageApi, show
from tutti.lineage.service import build
from tutti.records.canonical import JsonValue, canonical_json
from tutti.records.manifest import Kind

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)
DIGEST = "blake3:" + "0" * 64
METADATA = shared()


class Silent(grpc.Channel):
    """To owners that own nothing: every answer is empty."""

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        return lambda request, **_: response_deserializer(b"")

    def unary_stream(self, *_: Any, **__: Any) -> Any:
        return None

    def stream_unary(self, *_: Any, **__: Any) -> Any:
        return None

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        return None

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def unsubscribe(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_: object) -> None: ...


@dataclass
class Pipeline(Silent):
    """To the owner of runs, which knows these. `lists` counts how often it was asked for all of them."""

    runs: dict[str, Run] = field(default_factory=dict)
    lists: int = 0
    reading: Callable[[], None] = field(default=lambda: None)

    def unary_unary(self, method: str, *serializers: Any, **more: Any) -> Any:
        def get(request: GetRequest, **_: Any) -> Run:
            if request.name not in self.runs:
                raise NotFound(request.name)
            return self.runs[request.name]

        def every(request: ListRequest, **_: Any) -> ListRunsResponse:
            self.lists += 1
            self.reading()
            return ListRunsResponse(runs=self.runs.values())

        def changes(request: ListChangesRequest, **_: Any) -> ListChangesResponse:
            return ListChangesResponse(changes={"runs": sum(run.revision for run in self.runs.values())})

        known = {"GetRun": get, "ListRuns": every, "ListChanges": changes}
        return known.get(method.rpartition("/")[2]) or super().unary_unary(method, *serializers, **more)


class InlinePool:
    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)


@dataclass
class OneThreadHost:
    """Satisfies chassis.service.Host."""

    database: Database
    blobs: Blobs
    units: Units
    metadata: MetaData
    clock: Clock
    randomness: Randomness
    service: str = "lineage"
    pool: Pool = field(default_factory=InlinePool)
    pipeline: Pipeline = field(default_factory=Pipeline)

    def channel(self, service: str) -> grpc.Channel:
        return self.pipeline if service == "pipeline" else Silent()

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[S]) -> S:
        return model()


class World:
    def __init__(self, folder: Path) -> None:
        self.clock, metadata, randomness = ManualClock(), METADATA, SeededRandomness("lineage")
        self._database = EmbeddedDatabase(folder / "lineage.db", clock=self.clock, inline=True)
        self._log = EmbeddedEventLog(folder / "events.db", clock=self.clock, inline=True)
        (folder / "blobs").mkdir()
        self.blobs = EmbeddedBlobs(folder / "blobs")
        units = Units(self._database, "lineage", metadata, clock=self.clock, randomness=randomness)
        self.host = OneThreadHost(self._database, self.blobs, units, metadata, self.clock, randomness)
        self.service = build(self.host)
        assemble(self.host, self.service, self._log, holder="test").prepare(alone=True)
        guarded = self.service.serves[0].api
        assert isinstance(guarded, Guarded)
        api = guarded.api
        assert isinstance(api, LineageApi)
        self.api, self.documents, self.tables = api, api._documents, api._tables
        self.folding = api._folding

    def close(self) -> None:
        self._database.close()
        self._log.close()
        self.blobs.close()

    def admit(self, resource: Message) -> None:
        self.host.units.run(lambda unit: self.folding.admit(unit, resource))

    def settle(self) -> None:
        """Fold all that there is, as the loop does at an interval."""
        self.clock.advance(31)
        while self.folding.reconciler.step():
            pass

    def doctor(self) -> Finding:
        _, check = self.service.checks
        return check()

    def edges(self) -> set[tuple[str, str]]:
        query = select(self.tables.edges)
        return self.host.units.run(lambda unit: {(row.parent, row.child) for row in unit.tx.execute(query)})

    def heads(self) -> list[str]:
        self.settle()
        return [head.name for head in self.documents.heads()]

    def ingested(
        self, *sources: tuple[str, ...], rejections: JsonValue = ()
    ) -> tuple[bytes, Ingest, list[DocumentShardEntry]]:
        """The bytes of a manifest of shards with pages of these sources, its ingest, its shards."""
        entries = []
        for each in sources:
            data, info = encode_document_shard(page(source) for source in each)
            key = f"ingest/document-shards/{info.bytes_digest.removeprefix('blake3:')}.parquet"
            self.blobs.put_if_absent(key, data)
            entries.append(DocumentShardEntry(key, info))
        body = IngestBody(
            shards=tuple(entries),
            measures=(),
            input_digest=DIGEST,
            files=len(sources),
            documents=sum(map(len, sources)),
            rejected=(),
            rejections=put_named(self.blobs, "ingest/rejections", canonical_json(rejections), ".json"),
            extraction_version=1,
            normalisation_version=1,
        )
        manifest = body.manifest(producer="test")
        made = Ingest(name="ingests/a")
        made.result.manifest_key = f"ingest/manifests/{manifest.content_digest.removeprefix('blake3:')}.json"
        return manifest.encode(), made, entries

    def deduplicated(self, shards: list[DocumentShardEntry], clusters: str) -> None:
        """A dedup with this file of duplicates is folded."""
        body = DedupBody(tuple(shards), "", clusters, 1, 1, 1, 1, (), "ingest/rejections/none.json")
        result = publish(self.blobs, "dedup", body.manifest(producer="test"), data_bytes=0)
        self.admit(Dedup(name="dedups/a", result=result))
        self.settle()


def page(source: str) -> Document:
    return Document.make(
        source=source,
        text=f"text of {source}",
        title="",
        media_type=MediaType.PLAIN,
        charset="utf-8",
        replaced_characters=0,
        extraction=Extraction.VERBATIM,
        normalisation_version=1,
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_two_resources_with_the_same_manifest_have_the_same_edges(world: World) -> None:
    data, first, (shard,) = world.ingested(("a", "b"))
    world.blobs.put_if_absent(first.result.manifest_key, data)
    second = Ingest(name="ingests/b", result=first.result)
    world.admit(first)
    world.admit(second)
    world.settle()
    assert world.edges() == {("ingests/a", shard.resource), ("ingests/b", shard.resource)}


def test_a_run_that_reused_a_result_is_told_from_one_that_made_it_in_whatever_order_they_come(world: World) -> None:
    def run(name: str, *, reused: bool) -> Run:
        read = StageInput(role="pages", resource="crawls/a")
        return Run(name=name, stages=[Stage(resource="ingests/a", kind="ingest", inputs=[read], reused=reused)])

    def relations() -> set[tuple[str, str]]:
        edges = world.host.units.run(lambda unit: list(world.tables.edges_of(unit, ["ingests/a"], up=True)))
        return {(edge.parent, edge.relation) for edge in edges}

    runs = [run("runs/a", reused=True), run("runs/b", reused=False)]
    world.admit(runs[0])
    assert relations() == {("runs/a", "reused"), ("crawls/a", "equal")}
    for each in (*runs[1:], *runs):
        world.admit(each)
        assert relations() == {("runs/a", "reused"), ("crawls/a", "read"), ("runs/b", "made")}
    stale = graph.Testimony(edges=(Edge("runs/a", "ingests/a", "made"),))  # as of earlier versions
    world.host.units.run(lambda unit: world.tables.admit(unit, stale))
    world.host.pipeline.runs |= {each.name: each for each in runs}
    world.host.units.run(world.folding.begin_rebuild)
    world.settle()
    assert relations() == {("runs/a", "reused"), ("crawls/a", "read"), ("runs/b", "made")}


@pytest.mark.parametrize("state", [CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED])
def test_only_a_committed_checkpoint_is_read(world: World, state: Any) -> None:
    made = Checkpoint(name="checkpoints/j/0/5", job="jobs/j", manifest_key="committer/manifests/j.0.5.json")
    for now, heads in ((CHECKPOINT_STATE_DECIDED, []), (CHECKPOINT_STATE_COMMITTED, [made.name]), (state, [])):
        made.state = now
        world.admit(made)
        assert world.heads() == heads
    assert ("jobs/j", made.name) in world.edges()


def test_a_kind_is_listed_again_only_when_a_resource_of_it_changed(world: World) -> None:
    pipeline = world.host.pipeline
    pipeline.runs["runs/a"] = Run(name="runs/a", revision=1)
    world.settle()
    world.settle()
    assert pipeline.lists == 1
    pipeline.runs["runs/a"].revision = 2
    world.settle()
    assert pipeline.lists == 2
    pipeline.runs["runs/b"] = Run(name="runs/b", revision=1)
    world.settle()
    assert pipeline.lists == 3


def test_lists_that_take_long_are_read_less_often_unless_a_rebuild_waits_for_them(world: World) -> None:
    pipeline = world.host.pipeline
    pipeline.runs["runs/a"] = Run(name="runs/a", revision=1)
    pipeline.reading = lambda: world.clock.advance(2)
    world.settle()
    pipeline.runs["runs/a"].revision = 2
    world.settle()
    world.settle()
    assert pipeline.lists == 1
    world.clock.advance(2 * REST)
    world.settle()
    assert pipeline.lists == 2
    world.host.units.run(world.folding.begin_rebuild)
    world.settle()
    assert pipeline.lists == 3


def test_a_missing_manifest_is_read_once_it_is_there(world: World) -> None:
    data, made, (shard,) = world.ingested(("a",))
    world.admit(made)
    world.settle()
    assert not world.doctor().ok
    assert made.result.manifest_key in world.doctor().message
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.settle()
    assert world.edges() == {("ingests/a", shard.resource)}
    assert world.doctor().ok


def test_the_doctor_names_a_damaged_manifest_until_it_is_made_again(world: World) -> None:
    data, made, _ = world.ingested(("a",))
    world.blobs.put_if_absent(made.result.manifest_key, data[:-9])
    world.admit(made)
    world.settle()
    assert f"{made.result.manifest_key} of ingests/a is damaged" in world.doctor().message
    world.blobs.delete(made.result.manifest_key)
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.settle()
    assert world.doctor().ok


def test_a_document_is_looked_for_only_in_shards_whose_range_holds_its_id(world: World) -> None:
    one, other = sorted(("a", "b"), key=lambda source: page(source).doc_id)
    data, made, (_, second) = world.ingested((one,), (other,))
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    world.blobs.delete(second.blob)
    wanted = page(one).doc_id
    assert [row.source for row in world.documents.find(wanted)] == [one]
    assert [row.source for row in world.documents.find(f"documents/{wanted}")] == [one]
    with pytest.raises(Refused):
        world.documents.find(other)


def test_a_source_path_is_found_in_any_shard(world: World) -> None:
    data, made, _ = world.ingested(("a", "c"), ("b",))
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    assert [world.documents.find(source)[0].doc_id for source in "abc"] == [page(source).doc_id for source in "abc"]


def test_a_document_whose_ingest_is_not_known_yet_has_no_label(world: World) -> None:
    found, checkpoint = Walk(["checkpoints/j/0/5"]), Vertex("checkpoints/j/0/5", "checkpoint")
    ids = {"a" * 64}
    extra = show(checkpoint, ids, world.documents.rows(ids), found, 10)
    assert [(each.name, each.label) for each in extra.values()] == [(f"documents/{'a' * 64}", "")]
    assert found.edges == [Edge(f"documents/{'a' * 64}", checkpoint.name, "trained")]


def test_a_list_that_is_not_what_its_key_says_is_refused(world: World) -> None:
    key = put_named(world.blobs, "dedup/clusters", b"[]", ".json")
    assert Library(world.blobs).json(key) == []
    world.blobs.delete(key)
    world.blobs.put_if_absent(key, b"[1]")
    with pytest.raises(Refused, match="digest"):
        Library(world.blobs).json(key)


def test_a_dropped_page_names_the_one_that_stands_for_it(world: World, tmp_path: Path) -> None:
    data, made, shards = world.ingested(("a", "b"))
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    kept, dropped = page("a").doc_id, page("b").doc_id
    row = {"doc_id": dropped, "kept": kept, "how": "near", "jaccard": 0.875}
    duplicates.write([RecordBatch.from_pylist([row], schema=duplicates.schema())], tmp_path / "clusters.parquet")
    world.deduplicated(shards, put_file(world.blobs, "dedup/clusters", tmp_path / "clusters.parquet"))
    assert (
        world.documents.fate(dropped) == f"dropped as a near-duplicate (0.88) of documents/{kept} ({page('a').source})"
    )
    assert world.documents.fate(kept) == ""


def test_a_run_that_was_renamed_is_traced_by_its_new_title(world: World) -> None:
    run = Run(name="runs/a", spec=RunSpec(title="my texts"), stages=[Stage(name="ingest", resource="ingests/a")])
    world.admit(run)
    run.labels.title = "lr 0.01"
    world.admit(run)
    vertex = world.host.units.run(lambda unit: world.tables.vertex(unit, "runs/a"))
    assert vertex is not None
    assert vertex.label == "lr 0.01"


def test_the_duplicates_of_version_0_1_are_named_too(world: World) -> None:
    data, made, shards = world.ingested(("a", "b"))
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    kept, dropped = page("a").doc_id, page("b").doc_id
    clusters = canonical_json([{"dropped": [dropped], "kept": kept, "text_digest": DIGEST}])
    world.deduplicated(shards, put_named(world.blobs, "dedup/clusters", clusters, ".json"))
    assert (
        world.documents.fate(f"documents/{dropped}")
        == f"dropped as a duplicate of documents/{kept} ({page('a').source})"
    )


def test_of_runs_that_chose_otherwise_the_newest_that_read_a_document_tells_its_fate(
    world: World, tmp_path: Path
) -> None:
    """As after a retraction was withdrawn, or a rule changed."""
    doc_id = page("a").doc_id

    def chosen(name: str, source: str, rule: str) -> None:
        """A filter of one page, which leaves it out by this rule; "" for none."""
        data, made, shards = world.ingested((source,))
        world.blobs.put_if_absent(made.result.manifest_key, data)
        world.admit(Ingest(name=f"ingests/{source}", result=made.result))
        row = {"doc_id": page(source).doc_id, "rule": rule, "value": None, "threshold": None, "language": "seen"}
        decisions.write([RecordBatch.from_pylist([row], schema=decisions.schema())], tmp_path / name)
        told = put_file(world.blobs, "ingest/decisions", tmp_path / name) if rule else ""
        body = FilterBody(tuple(shards), told, 1, (), "ingest/rejections/none.json")
        result = publish(world.blobs, "ingest/filters", body.manifest(producer="test"), data_bytes=0)
        world.admit(Filter(name=f"filters/{name}", result=result))

    chosen("kept", "a", "")
    chosen("retracted", "a", "retracted")
    chosen("ruled", "a", "c4")
    chosen("another", "b", "c4")
    ruled, retracted = "rejected by the rule c4, seen", "rejected by the rule retracted, on request"
    for second, (name, fate) in enumerate(
        [("retracted", retracted), ("kept", ""), ("ruled", ruled), ("another", ruled), ("retracted", retracted)]
    ):
        run = Run(name=f"runs/{9 - second}", stages=[Stage(name="filter", resource=f"filters/{name}")])
        run.started_at.FromSeconds(second)
        world.host.pipeline.runs[run.name] = run
        assert world.documents.fate(doc_id) == fate


def test_an_index_is_opened_from_what_its_manifest_says_and_only_for_its_dataset(world: World, tmp_path: Path) -> None:
    tokens = TokenRun(np.array([9, *range(8), 9]), 10, np.array([0]), [page("a").doc_id], 9, 10, 9, 0)
    (tmp_path / "tokens").write_bytes(encode_token_shard(tokens)[0])
    info = build_index([tmp_path / "tokens"], tmp_path / "index")
    blob = put_file(world.blobs, "tokenization/indexes", tmp_path / "index")
    made = publish(world.blobs, "x", IndexBody(blob, info).manifest(dataset="datasets/a", producer="x"), data_bytes=0)
    library = Library(world.blobs)
    (found,) = library.index(made.manifest_key, "datasets/a").spans(list(range(8)))
    assert (found.start, found.end, found.examples[0].doc_id) == (0, 8, page("a").doc_id)
    with pytest.raises(Refused, match="it is the index of datasets/a, not of datasets/b"):
        Library(world.blobs).index(made.manifest_key, "datasets/b")
    whole = world.blobs.get(blob)
    world.blobs.delete(blob)
    assert library.index(made.manifest_key, "datasets/a").spans(list(range(8))) == [found]
    with pytest.raises(Refused, match="is gone"):
        Library(world.blobs).index(made.manifest_key, "datasets/a")
    world.blobs.put_if_absent(blob, whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Refused, match="digest"):
        Library(world.blobs).index(made.manifest_key, "datasets/a")


def test_no_scratch_stays_whether_a_shard_was_read_or_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    _, _, (shard,) = world.ingested(("a",))
    library = Library(world.blobs)
    assert [row.source for row in library.documents(shard)] == ["a"]
    world.blobs.delete(shard.blob)
    with pytest.raises(Refused):
        Library(world.blobs).documents(shard)
    assert not list(scratch.iterdir())


def test_a_slow_read_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = (put_named(world.blobs, "dedup/clusters", data, ".json") for data in (b"[1]", b"[2]"))
    begun, go_on, get = threading.Event(), threading.Event(), world.blobs.get

    def waiting(key: str) -> bytes:
        if key == slow:
            begun.set()
            assert go_on.wait(20)
        return get(key)

    monkeypatch.setattr(world.blobs, "get", waiting)
    library = Library(world.blobs)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(library.json, slow)
        assert begun.wait(20)
        try:
            assert pool.submit(library.json, quick).result(5) == [2]
        finally:
            go_on.set()
        assert first.result(20) == [1]


def test_a_manifest_that_two_resources_name_is_opened_once(world: World) -> None:
    data, made, _ = world.ingested(("a",))
    world.blobs.put_if_absent(made.result.manifest_key, data)
    world.admit(made)
    world.admit(Ingest(name="ingests/b", result=made.result))
    assert world.documents._manifests(Kind.INGEST) == [made.result.manifest_key]
