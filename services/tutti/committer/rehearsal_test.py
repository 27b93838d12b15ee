"""A committer with its store, database and log in one thread, and the agents that would call it (tests).

Everything is the real code but the process boundary: an agent stores with the writer that its I/O child uses, and calls
the methods that gRPC would call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

import grpc
from google.protobuf.message import Message
from pydantic import BaseModel
from sqlalchemy import MetaData

from tutti.backbone import Blobs, Clock, Database, EventLog, ManualClock, Randomness, SeededRandomness
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.backbone.files import Files
from tutti.chassis.events.catalog import event_type
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call
from tutti.chassis.runtime.parts import assemble
from tutti.chassis.service import Home
from tutti.chassis.store.canonical import render
from tutti.chassis.store.tables import shared
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks import Pool
from tutti.checkpoints import example_test as example
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.manifest import CheckpointBody
from tutti.checkpoints.verification import verify_report
from tutti.checkpoints.writer import StoredShard, describe, store
from tutti.committer.service import build
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    Checkpoint,
    ClaimVerificationRequest,
    ClaimVerificationResponse,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
    ReportShardRequest,
    ReportVerificationRequest,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.model.plan import Shape
from tutti.model.shapes import to_wire
from tutti.model.training import Training

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)
M = TypeVar("M", bound=Message)
CALL = Call(role=Role.OPERATOR, request_id="", peer="test", deadline_seconds=10)
STEPS = 400
METADATA = shared()


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
    service: str = "committer"
    pool: Pool = field(default_factory=InlinePool)
    given: Mapping[str, Any] = field(default_factory=dict)

    def channel(self, service: str) -> grpc.Channel:
        raise AssertionError(f"the committer calls nobody, but wants {service}")

    def home(self) -> Home:
        raise AssertionError("no program is started here")

    def settings(self, model: type[S]) -> S:
        return model(**self.given)


class Rehearsal:
    """One life of a committer on `folder`; `wrap_*` put something between it and its ports.

    Replicas share a `database` and a `store`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        files: Files | None = None,
        training: Training | None = None,
        clock: ManualClock | None = None,
        life: int = 0,
        database: Database | None = None,
        store: Path | None = None,
        wrap_blobs: Callable[[Blobs], Blobs] = lambda port: port,
        wrap_database: Callable[[Database], Database] = lambda port: port,
        wrap_log: Callable[[EventLog], EventLog] = lambda port: port,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.training = training or example.training(steps=STEPS)
        self.clock = clock or ManualClock()
        store_folder = store or folder / "blobs"
        for each in (folder, store_folder):
            each.mkdir(parents=True, exist_ok=True)
        self._database = database or EmbeddedDatabase(folder / "committer.db", clock=self.clock, inline=True)
        self._log = EmbeddedEventLog(folder / "events.db", clock=self.clock, inline=True)
        self._blobs: EmbeddedBlobs | None = None
        try:
            self._blobs = EmbeddedBlobs(store_folder, files=files)
            self.blobs = wrap_blobs(self._blobs)
            wrapped = wrap_database(self._database)
            metadata, randomness = METADATA, SeededRandomness(f"life {life}")
            units = Units(wrapped, "committer", metadata, clock=self.clock, randomness=randomness)
            self.host = OneThreadHost(wrapped, self.blobs, units, metadata, self.clock, randomness, given=settings)
            self.service = build(self.host)
            self.parts = assemble(self.host, self.service, wrap_log(self._log), holder=f"life {life}")
            api: Any = self.service.serves[0].api
            self.api = api
            self.parts.prepare(alone=database is None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of files and locks, as the end of the process would."""
        self._database.close()
        self._log.close()
        if self._blobs is not None:
            self._blobs.close()

    def settle(self) -> None:
        """Step every loop until none has anything to do."""
        for _ in range(1000):
            if not [loop for loop in self.parts.loops if loop.step()]:
                return
        raise AssertionError("the loops never came to rest")

    def open_epoch(self, epoch: int, dp: int, **rest: Any) -> OpenEpochResponse:
        """The answer to `request` with the same arguments."""
        found: OpenEpochResponse = self.api.OpenEpoch(self.request(epoch, dp, **rest), CALL)
        return found

    def request(
        self,
        epoch: int,
        dp: int,
        *,
        nodes: int = 1,
        transition: str = "",
        placement: Sequence[str] = (),
        job: str = "j",
        base: str = "",
    ) -> OpenEpochRequest:
        return OpenEpochRequest(
            job=f"jobs/{job}",
            epoch=epoch,
            shape=to_wire(Shape(dp)),
            transition=transition,
            training=self.training.to_json(),
            training_digest=self.training.digest(),
            dataset_digest=self.training.dataset,
            base=base,
            cause=f"from {base}" if base else "",
            nodes=nodes,
            placement=placement,
        )

    def store(
        self,
        step: int,
        *,
        dp: int,
        epoch: int,
        rank: int,
        line: int = 0,
        node: str = "nodes/a",
        seed: int | None = None,
        earlier: bool = False,
        job: str = "j",
    ) -> tuple[ShardName, StoredShard]:
        """What the I/O child of a rank's agent does, or that of an `earlier` version; `seed` makes it another state."""
        shape, name = Shape(dp), ShardName(job, line, step, epoch, rank).stored_by("" if earlier else node)
        of = self.training if seed is None else example.training(steps=STEPS, seed=seed)
        buffer = example.buffer(of, shape, rank, step)
        report = describe(buffer, example.snapshot(self.training, shape, name, node=node))
        return name, store(self.blobs, report, buffer)

    def tell(self, name: ShardName, stored: StoredShard, *, node: str = "nodes/a") -> bool:
        found: bool = self.api.ReportShard(
            ReportShardRequest(
                job=f"jobs/{name.job}",
                line=name.line,
                step=name.step,
                epoch=name.epoch,
                rank=name.rank,
                node=node,
                report_key=stored.report_key,
                report_digest=stored.report_digest,
            ),
            CALL,
        ).decided
        return found

    def snapshot(
        self, step: int, *, dp: int, epoch: int, line: int = 0, seed: int | None = None, job: str = "j"
    ) -> None:
        """All ranks store and report; ranks 0 … are on nodes/a, nodes/b, …"""
        for rank in range(dp):
            node = f"nodes/{'abcdefgh'[rank]}"
            stored = self.store(step, dp=dp, epoch=epoch, rank=rank, line=line, node=node, seed=seed, job=job)
            self.tell(*stored, node=node)

    def commit(self, *steps: int, dp: int = 2, epoch: int = 1, line: int = 0, job: str = "j") -> None:
        """These steps become committed checkpoints, one after the other."""
        for step in steps:
            self.snapshot(step, dp=dp, epoch=epoch, line=line, job=job)
            self.settle()
            assert self.checkpoint(step, line=line, job=job).state == CHECKPOINT_STATE_COMMITTED

    def flip(self, key: str, at: int = 100) -> None:
        """One bit of a blob turns over."""
        data = bytearray(self.blobs.get(key))
        data[at] ^= 1
        self.blobs.delete(key)
        self.blobs.put_if_absent(key, bytes(data))

    def manifest(self, step: int, *, line: int = 0, job: str = "j") -> CheckpointBody:
        return CheckpointBody.decode(self.blobs.get(self.checkpoint(step, line=line, job=job).manifest_key))

    def claim(self, node: str, process: str = "io") -> ClaimVerificationResponse:
        found: ClaimVerificationResponse = self.api.ClaimVerification(
            ClaimVerificationRequest(node=node, process=process), CALL
        )
        return found

    def read_back(self, node: str, process: str = "io") -> bool:
        """An agent claims, reads and reports one verification; whether there was one."""
        claim = self.claim(node, process)
        if not claim.verification:
            return False
        found = verify_report(self.blobs, claim.report_key, claim.report_digest, Training.from_json(claim.training))
        self.answer(claim, node, "; ".join(map(str, found.problems)), process)
        return True

    def answer(self, claim: ClaimVerificationResponse, node: str, error: str = "", process: str = "io") -> None:
        self.api.ReportVerification(
            ReportVerificationRequest(
                verification=claim.verification, claim=claim.claim, node=node, process=process, error=error
            ),
            CALL,
        )

    def checkpoint(self, step: int, *, line: int = 0, job: str = "j") -> Checkpoint:
        found: Checkpoint = self.api.GetCheckpoint(GetRequest(name=f"checkpoints/{job}/{line}/{step}"), CALL)
        return found

    def line(self, number: int, *, job: str = "j") -> Line:
        found: Line = self.api.GetLine(GetRequest(name=f"lines/{job}/{number}"), CALL)
        return found

    def events(self, message: type[M]) -> list[M]:
        """What the log holds of one type, decoded."""
        self.settle()
        kind = event_type(message)
        subscription = self._log.subscribe(f"reader {self.host.randomness.bits(60)}", [kind.topic])
        found: list[M] = []
        try:
            while records := subscription.poll(0):
                found += [message.FromString(each.value) for each in records if each.headers["ce_type"] == kind.type]
        finally:
            subscription.close()
        return found

    def export(self) -> list[str]:
        return list(render(self.host.units.run(lambda unit: list(self.service.export(unit)))))
