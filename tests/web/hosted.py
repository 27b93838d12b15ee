"""A host with the services that the pages of runs ask, and results that were planted into their tables.

Promises: the services, their databases, the HTTP server and its sessions are the real ones; only the work that leads to
a result is left out, so that a page has something to show within a second.
"""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import select, update

from tests.policies import epoch_of, report_of
from tutti.access.service import build as build_access
from tutti.backbone.connect import open_blobs
from tutti.chassis.config.datadir import DataDir, pages_in
from tutti.chassis.config.settings import load
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Build
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.curve import Recorder
from tutti.client import Client, connect
from tutti.committer.service import build as build_committer
from tutti.contracts.access.v1 import IssueLinkRequest
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint, CheckpointCurve
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, Shape
from tutti.contracts.pipeline.v1 import Run, RunFigures, RunSpec, RunTraining, Stage
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Assignment,
    Job,
    JobSpec,
    Node,
)
from tutti.contracts.tokenization.v1 import Dataset, Tokenization
from tutti.corpus.conversations.experience import Experience
from tutti.pipeline.plans.reading import read
from tutti.pipeline.service import build as build_pipeline
from tutti.platform.host import HostProcess
from tutti.records.canonical import bytes_digest
from tutti.scheduler.service import build as build_scheduler
from tutti.tokenization.service import build as build_tokenization
from tutti.web.tokens import digest, new_token

BUILDS: Mapping[str, Build] = {
    "access": build_access,
    "pipeline": build_pipeline,
    "scheduler": build_scheduler,
    "committer": build_committer,
    "tokenization": build_tokenization,
}
STARTED = 1_790_000_000
STEPS, EVERY = 40, 10
WAITS = "waiting for 2 more free slots: it needs 4, one a rank"
HOSTILE = "<script>alert(1)</script>"
SWEPT = ("ingest", "filter", "dedup", "tokenization", "train")


class Silent(grpc.GenericRpcHandler):
    """Takes every call, and answers none until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.released.wait()
            return b""

        return grpc.unary_unary_rpc_method_handler(wait)


@dataclass
class Hosted:
    host: HostProcess
    data_dir: DataDir
    _planted: int = 0

    @property
    def url(self) -> str:
        found = pages_in(self.data_dir.path, "pipeline")
        assert found is not None
        return found

    def client(self) -> Client:
        return connect(self.data_dir.path)

    def link(self, user: str = "") -> str:
        """The token of a login link, for the operator unless another user is named."""
        token = new_token()
        with self.client() as client:
            client.access.IssueLink(IssueLinkRequest(link_digest=digest(token), user=user))
        return token

    def running(self, service: str) -> Any:
        return next(each for each in self.host.services if each.service.name == service)

    def plant(self, service: str, message: Any) -> None:
        """Create a resource at its owner, with its event; one that exists gets the fields of the message."""
        running = self.running(service)
        resource = next(each for each in running.service.resources if each.message is type(message))

        def write(unit: Unit) -> None:
            if resource.find(unit, message.name) is None:
                resource.create(unit, message)
                return
            known = resource.lock(unit, message.name)
            known.MergeFrom(message)
            resource.put(unit, known)

        running.host.units.run(write)

    @contextlib.contextmanager
    def damaged(self, service: str, name: str) -> Iterator[None]:
        """The row of a resource does not fit its digest meanwhile."""
        running, kind = self.running(service), name.partition("/")[0]
        table = next(each.table for each in running.service.resources if each.kind == kind)
        row = table.c.name == name
        kept = running.host.units.run(lambda unit: unit.tx.execute(select(table.c.digest).where(row)).scalar_one())

        def put(digest: str) -> None:
            running.host.units.run(lambda unit: unit.tx.execute(update(table).where(row).values(digest=digest)).close())

        put("blake3:other")
        try:
            yield
        finally:
            put(kept)

    @contextlib.contextmanager
    def hung(self, *services: str) -> Iterator[None]:
        """Services are asked at a server that takes calls and does not answer them meanwhile."""
        addresses, silent = self.host._loaded.values.services, Silent()
        server = grpc.server(ThreadPoolExecutor(8), handlers=[silent])
        addresses.update(dict.fromkeys(services, f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
        server.start()
        try:
            yield
        finally:
            for each in services:
                del addresses[each]
            silent.released.set()
            server.stop(None).wait()

    def report(self, job: str, found: Experience) -> None:
        """Store rollouts and tell of them, as an agent does."""
        report = report_of(f"jobs/{job}", found, node="nodes/a", epoch=1)
        with contextlib.closing(open_blobs(self.data_dir.blobs_url)) as blobs:
            blobs.put_if_absent(report.key, found.encode())
        with connect(self.data_dir.path, role=Role.SERVICE) as scheduler:
            scheduler.committer.OpenEpoch(epoch_of(report.job, 1, report.node))
        with connect(self.data_dir.path, role=Role.AGENT) as agent:
            agent.experiences.ReportExperience(report)

    def plant_run(self, title: str) -> str:
        """A run that is done, with a training; the name of the run."""
        self._planted += 1
        ident = f"planted-{self._planted}"
        job = f"jobs/{ident}"
        self._plant_training(job)
        self.plant(
            "tokenization",
            Dataset(name=f"datasets/{ident}", tokens=120_000, validation_tokens=5_000, bigram_bits_per_byte=1.76),
        )
        self.plant(
            "tokenization",
            Tokenization(name=f"tokenizations/{ident}", state=STATE_DONE, dataset=f"datasets/{ident}"),
        )
        stages = [
            _stage("ingest", f"ingests/{ident}", 0, 2),
            _stage("tokenization", f"tokenizations/{ident}", 2, 5),
            _stage("train", job, 5, 65),
        ]
        spec = RunSpec(recipe=json.dumps({"name": title}), recipe_digest="blake3:" + "ab" * 32, title=title)
        run = Run(name=f"runs/{ident}", spec=spec, state=STATE_DONE, stages=stages)
        run.started_at.CopyFrom(_at(0))
        run.ended_at.CopyFrom(_at(65))
        run.figures.CopyFrom(RunFigures(documents=1_204, tokens=120_000, training=_trained(job)))
        self.plant("pipeline", run)
        return run.name

    def plant_sweep(self, count: int) -> None:
        """Runs that are done, with their figures and whole recipes, the newest with the highest number."""
        running = self.running("pipeline")
        (resource,) = running.service.resources
        recipe = json.loads(read("name: sweep\nsize: tiny\ninput: {path: pages}\ntrain: {steps: 40}\n").canonical())
        stages = [_stage(name, f"{name}s/sweep", at, at + 1) for at, name in enumerate(SWEPT)]

        def write(unit: Unit) -> None:
            for at in range(count):
                recipe["train"]["learning_rate"] = 1e-3 * (1 + at % 37)
                text = json.dumps(recipe)
                spec = RunSpec(recipe=text, recipe_digest=bytes_digest(text.encode()), title=f"sweep {at % 7}")
                run = Run(name=f"runs/sweep-{at:05}", spec=spec, state=STATE_DONE, stages=stages)
                run.started_at.CopyFrom(_at(100 + at))
                run.ended_at.CopyFrom(_at(200 + at))
                trained = _trained(f"jobs/sweep-{at}")
                trained.bits_per_byte, trained.parameters = 1 + (at * 7919 % count) / count, 288_928
                run.figures.CopyFrom(RunFigures(documents=at, tokens=120_000, training=trained))
                resource.create(unit, run)

        running.host.units.run(write)

    def plant_work(self) -> None:
        """A node with ranks, a node that is lost, a run with a job that runs, and a job that waits."""
        assigned = [Assignment(job="jobs/trains", epoch=3, ranks=[0, 1, 2, 5])]
        node = Node(name="nodes/a", state=NODE_STATE_READY, slots=6, machine="8 cores", assignments=assigned)
        self.plant("scheduler", node)
        self.plant("scheduler", Node(name="nodes/b", state=NODE_STATE_LOST, slots=2, reason="silent for 15 s"))
        spec = JobSpec(steps=STEPS)
        self.plant("scheduler", Job(name="jobs/trains", spec=spec, state=JOB_STATE_RUNNING, step=7))
        self.plant("scheduler", Job(name="jobs/waits", spec=spec, state=JOB_STATE_QUEUED, reason=WAITS))
        stage = Stage(name="train", state=STATE_RUNNING, resource="jobs/trains")
        run = Run(name="runs/under-way", spec=RunSpec(title="under way"), state=STATE_RUNNING, stages=[stage])
        run.started_at.CopyFrom(_at(0))
        self.plant("pipeline", run)

    def _plant_training(self, job: str) -> None:
        ident = job.removeprefix("jobs/")
        blobs = self.running("committer").host.blobs
        for step in range(EVERY, STEPS + 1, EVERY):
            told = Recorder()
            for each in range(step - EVERY + 1, step + 1):
                told.step(each, loss=8 / each**0.3, gradient_norm=1 / each, rate=1e-3, tokens=256, skipped=each == 7)
            told.validation(step, nats=3.0 * 64, tokens=64, bits_per_byte=2.5)
            data = told.take().encode()
            key = f"committer/curves/{ident}-{step}"
            blobs.put_if_absent(key, data)
            checkpoint = Checkpoint(
                name=f"checkpoints/{ident}/0/{step}",
                job=job,
                step=step,
                state=CHECKPOINT_STATE_COMMITTED,
                bytes=700_000,
                loss=8 / step**0.3,
                bits_per_byte=2.5,
                parent=f"checkpoints/{ident}/0/{step - EVERY}" if step > EVERY else "",
                curve=CheckpointCurve(key=key, digest=bytes_digest(data), bytes=len(data), first_step=step - EVERY + 1),
            )
            checkpoint.decided_at.CopyFrom(_at(step))
            self.plant("committer", checkpoint)
        self.plant(
            "scheduler",
            Job(
                name=job,
                spec=JobSpec(steps=STEPS, data_parallel=2),
                state=JOB_STATE_DONE,
                step=STEPS,
                decided_step=STEPS,
                loss=8 / STEPS**0.3,
                bits_per_byte=2.5,
                epoch=1,
                shape=Shape(data_parallel=2),
                history=["epoch 1 was opened", f"the last step, {HOSTILE}, was committed"],
            ),
        )


@contextlib.contextmanager
def hosted(path: Path, *overrides: str, builds: Mapping[str, Build] = BUILDS) -> Iterator[Hosted]:
    """`access` is among the services, whichever `builds` are given."""
    every = {"access": build_access, **builds}
    data_dir = DataDir(path)
    host = HostProcess(every, data_dir, load(environment={}, overrides=overrides, services=every))
    host.start()
    try:
        yield Hosted(host, data_dir)
    finally:
        host.stop()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Visitor:
    """A browser without a screen: keeps its cookies, sends the headers that a browser sends."""

    url: str
    agent: str = "a browser"
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, "", headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """A form of a page of this server, unless other headers are given."""
        given = {"sec-fetch-site": "same-origin", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.send("POST", path, urlencode(fields), given)

    def log_in(self, link: str) -> Answer:
        return self.post("/login", {"token": link, "next": "/runs"})

    def send(self, method: str, path: str, body: str, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent = {"user-agent": self.agent, **({"cookie": cookies} if cookies else {}), **headers}
        try:
            connection.request(method, path, body.encode(), sent)
            response = connection.getresponse()
            answer = Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read().decode(),
            )
        finally:
            connection.close()
        for name, morsel in SimpleCookie(answer.headers.get("set-cookie", "")).items():
            self.cookies.pop(name, None)
            if morsel.value:
                self.cookies[name] = morsel.value
        return answer


def _stage(name: str, resource: str, begin: int, end: int) -> Stage:
    stage = Stage(
        name=name, resource=resource, state=STATE_DONE, content_digest=f"blake3:{'cd' * 32}", summary="1,204 documents"
    )
    stage.started_at.CopyFrom(_at(begin))
    stage.ended_at.CopyFrom(_at(end))
    return stage


def _trained(job: str) -> RunTraining:
    checkpoint = f"checkpoints/{job.removeprefix('jobs/')}/0/{STEPS}"
    loss = 8 / STEPS**0.3
    return RunTraining(job=job, step=STEPS, steps=STEPS, loss=loss, bits_per_byte=2.5, checkpoint=checkpoint)


def _at(seconds: int) -> Timestamp:
    return Timestamp(seconds=STARTED + seconds)
