"""The pipeline alone in a world of its own, for its tests: an embedded database, a clock that is moved by hand, real
blobs and manifests, owners of stages that finish when a test says so.

Promises: nothing moves by itself; what an owner makes is a function of what it was asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from sqlalchemy import MetaData, select

from tutti.backbone import Blobs, Clock, Database, ManualClock, Randomness, SeededRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.errors import AlreadyExists, CorruptRow, InvalidField, NotFound, Problem, Unavailable
from tutti.chassis.events.event import Event
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import kinds
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.methods import find_method
from tutti.chassis.service import Home
from tutti.chassis.store.bodies import content_digest as body_digest
from tutti.chassis.store.canonical import render
from tutti.chassis.store.tables import shared
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.work.work import publish, put_content, put_named
from tutti.checkpoints.example_test import buffer, snapshot, training
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import build_manifest
from tutti.checkpoints.writer import describe, store
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    CurveMetric,
    CurvePoint,
    CurveValidation,
    CurveValue,
    GetCurveRequest,
    GetCurveResponse,
    ListCheckpointsResponse,
)
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    STATE_PENDING,
    STATE_RUNNING,
    Artifact,
    CancelRequest,
    GetRequest,
    ListRequest,
)
from tutti.contracts.ingest.v1 import (
    Classifier,
    ConversationsPart,
    Crawl,
    CreateCrawlRequest,
    CreateCrawlResponse,
    CreateFilterResponse,
    DigestInputRequest,
    DigestInputResponse,
    Filter,
    FindRetractedRequest,
    FindRetractedResponse,
)
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run
from tutti.contracts.sampling.v1 import CreateSampleResponse, Sample
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    CreateJobResponse,
    Job,
    JobState,
    ListJobsResponse,
    ListNodesResponse,
    Node,
)
from tutti.contracts.tokenization.v1 import (
    CreateTokenizationResponse,
    Dataset,
    ListDatasetsResponse,
    ListTokenizationsResponse,
    Tokenization,
    Tokenizer,
)
from tutti.corpus.conversations.conversationset import ConversationsBody, Lines
from tutti.corpus.documents.documentshard import DocumentShardInfo
from tutti.corpus.documents.stages import CrawlBody, DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.corpus.spans.building import IndexInfo
from tutti.corpus.spans.manifest import IndexBody
from tutti.corpus.tokens.dataset import DatasetBody, ShardEntry, Split
from tutti.model.plan import Shape
from tutti.model.training import Training
from tutti.pipeline.service import build
from tutti.records.canonical import JsonValue, bytes_digest, canonical_json, content_digest, parse_json
from tutti.records.manifest import Kind, Manifest

CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
VOCABULARY = 300  # of what has been trained, whatever was asked for
RECIPE = "name: test\nsize: tiny\ninput: {path: pages}\ntrain: {steps: 20}\n"
METADATA = shared()


@dataclass
class Owner:
    """Keeps what it was asked for; `down` makes every call fail, `forgets` the answer of the next create.

    The rows of what is in `damaged` cannot be read.
    """

    world: "World"
    version: str = "1"
    made: dict[str, Any] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    down: Problem | None = None
    forgets: bool = False
    damaged: set[str] = field(default_factory=set)

    def keep(self, request: Any, work: Any) -> Any:
        self.check("create")
        digest = body_digest(request)
        if self.digests.setdefault(request.name, digest) != digest:
            raise AlreadyExists(request.name, ours=self.digests[request.name], theirs=digest)
        kept = self.made.setdefault(request.name, work)
        if self.forgets:
            self.forgets = False
            raise Unavailable("the answer was lost")
        return kept

    def get(self, request: GetRequest) -> Any:
        self.check("get")
        if request.name in self.damaged:
            raise CorruptRow(f"the row {request.name!r} is damaged")
        if request.name not in self.made:
            raise NotFound(request.name)
        return self.made[request.name]

    def check(self, call: str) -> None:
        if self.down is not None:
            raise self.down
        self.calls.append(call)


class DataOwner(Owner):
    """Ingest, dedup or tokenization: work with a spec and an artifact."""

    def create(self, request: Any, message: type[Any]) -> Any:
        if request.spec.logic_version not in ("", self.version):
            raise InvalidField("spec.logic_version", seen=request.spec.logic_version, expected=self.version)
        work = message(name=request.name, spec=request.spec, state=STATE_PENDING, reason="waits for a worker")
        work.spec.logic_version = self.version
        return work if request.validate_only else self.keep(request, work)

    def cancel(self, request: CancelRequest) -> Any:
        self.check("cancel")
        work = self.get(GetRequest(name=request.name))
        if work.state in (STATE_PENDING, STATE_RUNNING):
            work.state = STATE_CANCELLED
        return work

    def end(self, state: int, reason: str = "", result: Artifact | None = None) -> Any:
        """The newest work ends."""
        work = list(self.made.values())[-1]
        work.state, work.reason = state, reason
        if result is not None:
            work.result.CopyFrom(result)
        self.world.hear(work)
        return work


@dataclass
class IngestOwner(DataOwner):
    crawls: DataOwner = field(kw_only=True)
    filters: DataOwner = field(kw_only=True)
    retracted: str = ""
    """the list of what is retracted of every ingest"""
    retracted_earlier: str = ""
    """that of every dedup"""
    classifiers: dict[str, Classifier] = field(default_factory=dict)

    def CreateCrawl(self, request: Any, call: Call) -> CreateCrawlResponse:
        if bad := [seed for seed in request.spec.seeds if not seed.startswith("http")]:
            raise InvalidField("spec.seeds", seen=bad[0], expected="a URL")
        asked = CreateCrawlRequest()
        asked.CopyFrom(request)
        asked.spec.ClearField("connect")  # no part of what is asked: the newest word counts
        crawl = self.crawls.create(asked, Crawl)
        del crawl.spec.connect[:]
        crawl.spec.connect.extend(request.spec.connect)
        return CreateCrawlResponse(crawl=crawl)

    def DigestInput(self, request: DigestInputRequest, call: Call) -> DigestInputResponse:
        self.check("digest")
        folder = Path(request.spec.input_path)
        if not folder.is_dir():
            raise InvalidField("input.path", seen=folder, expected="a folder; it is not there")
        pages = sorted(folder.iterdir())
        digest = bytes_digest(b"".join(page.name.encode() + page.read_bytes() for page in pages))
        nbytes = sum(page.stat().st_size for page in pages)
        return DigestInputResponse(input_digest=digest, files=len(pages), bytes=nbytes, logic_version=self.version)

    def GetClassifier(self, request: GetRequest, call: Call) -> Classifier:
        if request.name not in self.classifiers:
            raise NotFound(request.name)
        return self.classifiers[request.name]

    def FindRetracted(self, request: FindRetractedRequest, call: Call) -> FindRetractedResponse:
        self.check("find retracted")
        kept = request.manifest_key.startswith("dedup/")
        return FindRetractedResponse(retracted_key=self.retracted_earlier if kept else self.retracted)

    def CreateFilter(self, request: Any, call: Call) -> CreateFilterResponse:
        if unknown := set(request.spec.rule_sets) - {"c4"}:
            raise InvalidField("spec.rule_sets", seen=sorted(unknown)[0], expected="one of c4")
        return CreateFilterResponse(filter=self.filters.create(request, Filter))


@dataclass
class TokenizationOwner(DataOwner):
    datasets: dict[str, Dataset] = field(default_factory=dict)
    foreign: dict[str, Tokenizer] = field(default_factory=dict)
    """tokenizers that others trained, by name"""

    def CreateTokenization(self, request: Any, call: Call) -> CreateTokenizationResponse:
        if request.spec.pattern == "(":
            raise InvalidField("spec.pattern", seen="(", expected="a regular expression that compiles")
        return CreateTokenizationResponse(tokenization=self.create(request, Tokenization))

    def ListTokenizations(self, request: ListRequest, call: Call) -> ListTokenizationsResponse:
        """A page of one, so that there is a next one."""
        rest = sorted(name for name in self.made if name > request.page_token)
        token = rest[0] if len(rest) > 1 else ""
        return ListTokenizationsResponse(tokenizations=[self.made[name] for name in rest[:1]], next_page_token=token)

    def GetDataset(self, request: GetRequest, call: Call) -> Dataset:
        if request.name not in self.datasets:
            raise NotFound(request.name)
        return self.datasets[request.name]

    def ListDatasets(self, request: ListRequest, call: Call) -> ListDatasetsResponse:
        return ListDatasetsResponse(datasets=self.datasets.values())

    def GetTokenizer(self, request: GetRequest, call: Call) -> Tokenizer:
        found = [each for each in self.datasets.values() if each.tokenizer == request.name]
        if not found:
            raise NotFound(request.name)
        own = Tokenizer(name=request.name, vocabulary=VOCABULARY, pattern="llama")
        return self.foreign.get(request.name, own)


class SamplingOwner(DataOwner):
    def CreateSample(self, request: Any, call: Call) -> CreateSampleResponse:
        if request.spec.tokens > 100:
            raise InvalidField("spec.tokens", seen=request.spec.tokens, expected="1 to 100 tokens")
        return CreateSampleResponse(sample=self.create(request, Sample))


class TrainOwner(Owner):
    """The scheduler and the committer in one; `nodes` are registered at it."""

    nodes: tuple[Node, ...] = ()

    def ListNodes(self, request: ListRequest, call: Call) -> ListNodesResponse:
        self.check("list")
        return ListNodesResponse(nodes=self.nodes)

    def CreateJob(self, request: Any, call: Call) -> CreateJobResponse:
        job = Job(name=request.name, spec=request.spec, state=JOB_STATE_QUEUED, reason="pending because")
        return CreateJobResponse(job=self.keep(request, job))

    def GetJob(self, request: GetRequest, call: Call) -> Job:
        return cast(Job, self.get(request))

    def ListJobs(self, request: ListRequest, call: Call) -> ListJobsResponse:
        """The jobs in one state."""
        self.check("list jobs")
        state = JobState.Value(f"JOB_STATE_{request.filter.removeprefix('state=').upper()}")
        jobs = [each for each in self.made.values() if isinstance(each, Job) and each.state == state]
        return ListJobsResponse(jobs=jobs)

    def CancelJob(self, request: CancelRequest, call: Call) -> Job:
        self.check("cancel")
        job = self.get(GetRequest(name=request.name))
        job.state = JOB_STATE_CANCELLED
        return cast(Job, job)

    def GetCurve(self, request: GetCurveRequest, call: Call) -> GetCurveResponse:
        self.get(GetRequest(name=request.name))
        first, last = (CurveValue(step=step, value=step / 16) for step in (2, 12))
        points = [CurvePoint(step=request.after_step + step, loss=float(step)) for step in range(1, 5)]
        metrics = [CurveMetric(name="accuracy", values=[first, last])]
        for name, number in (("decided_pairs", 12), ("read_samples", 907), ("left_out_samples", 894)):
            metrics.append(CurveMetric(name=name, values=[CurveValue(step=12, value=number)]))
        validations = [CurveValidation(step=12, nats=1.0, tokens=13)]
        return GetCurveResponse(points=points, validations=validations, metrics=metrics)

    def GetCheckpoint(self, request: GetRequest, call: Call) -> Checkpoint:
        return cast(Checkpoint, self.get(request))

    def ListCheckpoints(self, request: ListRequest, call: Call) -> ListCheckpointsResponse:
        """A page of one, so that there is a next one."""
        self.check("list")
        found = sorted(
            (each for each in self.made.values() if isinstance(each, Checkpoint)), key=lambda each: each.name
        )
        if damaged := self.damaged & {each.name for each in found}:
            raise CorruptRow(f"the row {min(damaged)!r} is damaged")
        rest = [each for each in found if f"job={each.job}" == request.filter and each.name > request.page_token]
        token = rest[0].name if len(rest) > 1 else ""
        return ListCheckpointsResponse(checkpoints=rest[:1], next_page_token=token)


@dataclass
class WorldHost:
    database: Database
    blobs: Blobs
    clock: Clock
    randomness: Randomness
    units: Units
    metadata: MetaData
    peers: dict[str, object]
    works: Mapping[str, DataOwner]
    values: Mapping[str, Any]
    service: str = "pipeline"
    pool: Any = None

    def channel(self, service: str) -> grpc.Channel:
        return cast(grpc.Channel, Peer(self.peers[service], self.works))

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[Any]) -> Any:
        return model.model_validate(dict(self.values))


class Peer:
    """A channel to an owner in the same thread: to a method of its own, or else to what `works` does for every kind."""

    def __init__(self, api: object, works: Mapping[str, DataOwner]) -> None:
        self._api, self._works = api, works

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Callable[..., Message]:
        answer = getattr(self._api, method.rpartition("/")[2], None) or self._of_work(method)
        return lambda request, **_: answer(request, CALL)

    def _of_work(self, path: str) -> Callable[[Any, Call], Any]:
        """Create, Get or Cancel of a kind of work; another call is refused when it is made."""
        method = find_method(path)
        assert method is not None, path
        for kind in (kinds.named(plural) for plural in self._works):
            owner, message = self._works[kind.plural], kind.message
            if (method.service, method.name) == (kind.service, f"Create{kind.singular}"):
                field, response = kind.singular.lower(), method.response
                return lambda request, call: response(**{field: owner.create(request, message)})
            if (method.service, method.name) == (kind.service, f"Get{kind.singular}"):
                return lambda request, call: owner.get(request)
            if (method.service, method.name) == (kind.service, f"Cancel{kind.singular}"):
                return lambda request, call: owner.cancel(request)
        return lambda request, call: self._unexpected(path)

    def _unexpected(self, path: str) -> Any:
        raise AssertionError(f"{path} is answered by nobody in this world")


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("pages", "asked"):
            (folder / name).mkdir()
        self.page("a.txt", "a question", "asked")
        self.page("a.html", "one")
        self.clock, self.randomness = ManualClock(), SeededRandomness(1)
        self.database = EmbeddedDatabase(None, clock=self.clock, inline=True)
        self.blobs = EmbeddedBlobs(folder / "blobs")
        self.crawls, self.filters = DataOwner(self), DataOwner(self)
        self.ingest = IngestOwner(self, crawls=self.crawls, filters=self.filters)
        self.dedup, self.indexes, self.conversations = DataOwner(self), DataOwner(self), DataOwner(self)
        self.sampling, self.train, self.tokenization = SamplingOwner(self), TrainOwner(self), TokenizationOwner(self)
        self.campaigns, self.preferences, self.comparisons = DataOwner(self), DataOwner(self), DataOwner(self)
        self.works: dict[str, DataOwner] = {
            "campaigns": self.campaigns,
            "preferences": self.preferences,
            "comparisons": self.comparisons,
            "crawls": self.crawls,
            "conversations": self.conversations,
            "ingests": self.ingest,
            "filters": self.filters,
            "dedups": self.dedup,
            "tokenizations": self.tokenization,
            "indexes": self.indexes,
            "samples": self.sampling,
        }
        self.training: Callable[[Job], Training] = lambda job: training()  # of the checkpoints that it makes
        self.deaf = False
        self.artefact: bytes | None = None  # of the tokenizer that a tokenization trains; else something that is none
        self.tokens = 1  # of the dataset that it makes
        self.settings: dict[str, Any] = {}  # of the pipeline, from its next start
        self.start()

    def start(self) -> None:
        """The pipeline starts (anew) on what its database holds."""
        metadata = METADATA
        units = Units(self.database, "pipeline", metadata, clock=self.clock, randomness=self.randomness)
        peers: dict[str, object] = {
            "annotation": object(),
            "evaluation": object(),
            "ingest": self.ingest,
            "dedup": self.dedup,
            "tokenization": self.tokenization,
            "sampling": self.sampling,
            "scheduler": self.train,
            "committer": self.train,
        }
        self.host = WorldHost(
            self.database, self.blobs, self.clock, self.randomness, units, metadata, peers, self.works, self.settings
        )
        self.service = build(self.host)
        self.database.create(metadata)
        api: Any = self.service.serves[0].api
        self.api = api

    def page(self, name: str, text: str, folder: str = "pages") -> None:
        (self.folder / folder / name).write_text(text)

    def settle(self) -> None:
        for _ in range(200):
            if not any([loop.step() for loop in self.service.loops]):
                return
        raise AssertionError("the loops never rest")

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            self.settle()

    def create(self, *overrides: str, **more: Any) -> Run:
        request = CreateRunRequest(recipe=RECIPE, overrides=overrides, directory=str(self.folder), **more)
        run = self.api.CreateRun(request, CALL).run
        self.settle()
        found: Run = run
        return found

    def run(self, name: str) -> Run:
        found: Run = self.api.GetRun(GetRequest(name=name), CALL)
        return found

    def told(self) -> bytes:
        """Every value in every row but those of the private table, and the canonical export."""
        tables = [table for table in self.host.metadata.sorted_tables if table.name != "sources"]

        def read(unit: Unit) -> list[object]:
            rows = [row for table in tables for row in unit.tx.execute(select(table)).all()]
            return [value for row in rows for value in row] + list(render(self.service.export(unit)))

        values = self.host.units.run(read)
        return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)

    def hear(self, message: Any) -> None:
        """The event of a resource arrives, unless the world is deaf."""
        if self.deaf:
            return
        handler = next(each.handler for each in self.service.consumes if each.message is type(message))
        event = Event("1", "", message.name, 1, self.clock.now(), "", message)
        self.host.units.run(lambda unit: handler(unit, [event]))
        self.settle()

    def finish_crawl(self) -> None:
        """The site has not changed; its archives are others every time."""
        visit = len(self.crawls.made)
        archive = put_named(self.blobs, "ingest/archives", b"visit %d" % visit, ".warc.gz")
        body = CrawlBody((archive,), bytes_digest(b"site"), (("visited/page", 1),))
        made = publish(self.blobs, "ingest/crawls", body.manifest(producer="test"), data_bytes=0)
        self.crawls.end(STATE_DONE, "", made)

    def finish_ingest(self) -> None:
        spec = list(self.ingest.made.values())[-1].spec
        data = f"documents of {spec.input_digest}".encode()
        key = put_named(self.blobs, "ingest/document-shards", data, ".parquet")
        digest = bytes_digest(data)
        info = DocumentShardInfo(digest, digest, len(data), 1, 1, "a", "a")
        rejections = put_named(self.blobs, "ingest/rejections", b"[]", ".json")
        measures = (put_named(self.blobs, "ingest/measures", b"measures of " + data, ".parquet"),)
        pages = spec.input_digest or bytes_digest(b"site")
        body = IngestBody((DocumentShardEntry(key, info),), measures, pages, 1, 1, (), rejections, 1, 1)
        self.ingest.end(STATE_DONE, "", publish(self.blobs, "ingest", body.manifest(producer="test"), data_bytes=0))

    def finish_evaluation(self) -> None:
        self.finish_ingest()

    def finish_filter(self) -> None:
        spec = list(self.filters.made.values())[-1].spec
        shards = self.shards(spec.manifest_key)
        decisions = put_named(self.blobs, "ingest/decisions", f"decisions by {spec.rule_sets}".encode(), ".parquet")
        body = FilterBody(shards, decisions, 1, (), "ingest/rejections/x.json")
        made = publish(self.blobs, "ingest/filters", body.manifest(producer="test"), data_bytes=0)
        self.filters.end(STATE_DONE, "", made)

    def finish_dedup(self) -> None:
        spec = list(self.dedup.made.values())[-1].spec
        chosen = FilterBody.read(Manifest.decode(self.blobs.get(spec.manifest_key), expected=Kind.FILTER))
        clusters = put_named(self.blobs, "dedup/clusters", b"[]", ".json")
        body = DedupBody(chosen.shards, chosen.decisions, clusters, 1, 0, 0, 0, (), "ingest/rejections/x.json")
        self.dedup.end(STATE_DONE, "", publish(self.blobs, "dedup", body.manifest(producer="test"), data_bytes=0))

    def shards(self, manifest_key: str) -> tuple[DocumentShardEntry, ...]:
        return IngestBody.read(Manifest.decode(self.blobs.get(manifest_key), expected=Kind.INGEST)).shards

    def finish_tokenization(self) -> None:
        spec = list(self.tokenization.made.values())[-1].spec
        data = f"tokens of {spec.content_digest} {spec.vocabulary}".encode()
        digest = bytes_digest(data)
        key = put_named(self.blobs, "tokenization/token-shards", data, ".bin")
        entry = ShardEntry(digest, key, len(data), digest, 1, 1, 0, 1, "a", "a")
        learnt = {"of": spec.content_digest, "version": spec.logic_version}
        artefact = self.artefact or canonical_json(learnt)
        trained = content_digest(parse_json(artefact), kind="tokenizer")
        tokenizer = spec.tokenizer.replace("tokenizers/", "blake3:") or trained
        if not spec.tokenizer:
            named = f"tokenization/tokenizers/{tokenizer.removeprefix('blake3:')}.json"
            put_content(self.blobs, named, artefact, tokenizer)
        split = Split((entry,), 1, 1, 1, 1)
        body = DatasetBody(tokenizer, spec.vocabulary, 1, spec.context, split, split)
        manifest = body.manifest(parents=(), producer="test")
        name = f"datasets/{manifest.content_digest.removeprefix('blake3:')}"
        work = list(self.tokenization.made.values())[-1]
        work.dataset, work.tokenizer = name, f"tokenizers/{tokenizer.removeprefix('blake3:')}"
        made = publish(self.blobs, "tokenization", manifest, data_bytes=0)
        self.tokenization.datasets[name] = Dataset(
            name=name,
            manifest_key=made.manifest_key,
            content_digest=made.content_digest,
            tokenizer=work.tokenizer,
            tokens=self.tokens,
            sequences=1,
            context=spec.context,
        )
        self.tokenization.end(STATE_DONE, "", made)

    def finish_conversations(self) -> None:
        work = list(self.conversations.made.values())[-1]
        data = f"lines of {work.spec.input_digest}\n".encode()
        key = put_named(self.blobs, "ingest/conversations", data, ".jsonl")
        parts = {each.name: 1 for each in work.spec.split}
        body = ConversationsBody(Lines(key, bytes_digest(data), len(data), 1), {"messages": 1}, {}, 0, parts)
        made = publish(self.blobs, "ingest/conversations", body.manifest(producer="test"), data_bytes=len(data))
        work.conversations = 1
        work.parts.extend(ConversationsPart(name=name, conversations=1) for name in parts)
        self.conversations.end(STATE_DONE, "", made)

    def finish_index(self) -> None:
        spec = list(self.indexes.made.values())[-1].spec
        data = f"index of {spec.content_digest}".encode()
        key = put_named(self.blobs, "tokenization/indexes", data, ".spans")
        body = IndexBody(key, IndexInfo(bytes_digest(b"x"), bytes_digest(data), len(data), 2, 1, 1))
        made = body.manifest(dataset=f"datasets/{spec.content_digest.removeprefix('blake3:')}", producer="test")
        self.indexes.end(STATE_DONE, "", publish(self.blobs, "tokenization/indexes", made, data_bytes=len(data)))

    def finish_sample(self) -> None:
        """The texts follow from the state that was sampled, and from nothing else that was trained."""
        spec = list(self.sampling.made.values())[-1].spec
        state = self.train.made[spec.checkpoint].state_digest
        body: dict[str, JsonValue] = {"texts": [f"{prompt} {state}" for prompt in spec.prompts]}
        made = Manifest(Kind.SAMPLE, body, (spec.checkpoint,), "test")
        self.sampling.end(STATE_DONE, "", publish(self.blobs, "sampling", made, data_bytes=0))

    def finish_train(self) -> None:
        jobs = [job for job in self.train.made.values() if isinstance(job, Job)]
        job, parent = jobs[-1], ""
        for step in (5, 10):
            last = self.checkpoint(job, step, parent)
            parent = last.name
        job.state, job.reason, job.decided_step, job.state_digest = JOB_STATE_DONE, "", last.step, last.state_digest
        self.hear(job)

    def checkpoint(self, job: Job, step: int, parent: str) -> Checkpoint:
        """What the trainer stores and the committer publishes."""
        name, shape = ShardName(job.name.removeprefix("jobs/"), 0, step, 1, 0), Shape(1)
        trained = self.training(job)
        report = describe(buffer(trained, shape, 0, step), snapshot(trained, shape, name))
        store(self.blobs, report, buffer(trained, shape, 0, step))
        body = build_manifest([report], training=trained, parent=parent, verified_by=["test"])
        self.blobs.put_if_absent(body.manifest_key, body.manifest(producer="test").encode())
        made = Checkpoint(
            name=body.name,
            job=job.name,
            step=step,
            manifest_key=body.manifest_key,
            state_digest=body.state_digest,
            state=CHECKPOINT_STATE_COMMITTED,
        )
        self.train.made[made.name] = made
        return made

    def fail_train(self, reason: str) -> None:
        job = next(job for job in self.train.made.values() if isinstance(job, Job))
        job.state, job.reason = JOB_STATE_FAILED, reason
        self.hear(job)

    def fail_ingest(self, reason: str) -> None:
        self.ingest.end(STATE_FAILED, reason)

    def finish(self, *stages: str) -> None:
        for stage in stages or ("ingest", "filter", "dedup", "tokenization", "train"):
            getattr(self, f"finish_{stage}")()
