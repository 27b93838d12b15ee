"""The calls that the committer answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.names import check_name
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import ShardName
from tutti.committer import holders
from tutti.committer.commits import Commits
from tutti.committer.garbage import Collector, JobGarbage
from tutti.committer.imports import Imports
from tutti.committer.opening import Opening, read_checkpoint
from tutti.committer.pruning import Pruning
from tutti.committer.records import Records
from tutti.committer.retention import CheckpointAge
from tutti.committer.shards import Shards
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_QUARANTINED,
    CheckHolderRequest,
    CheckHolderResponse,
    Checkpoint,
    ClaimVerificationRequest,
    ClaimVerificationResponse,
    CollectGarbageRequest,
    CollectGarbageResponse,
    CreateImportRequest,
    CreateImportResponse,
    Garbage,
    GetCurveRequest,
    GetCurveResponse,
    KeptCheckpoint,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
    PinCheckpointRequest,
    PruneCheckpointsRequest,
    PruneCheckpointsResponse,
    ReportShardRequest,
    ReportShardResponse,
    ReportVerificationRequest,
    ReportVerificationResponse,
    VerifyCheckpointRequest,
    VerifyCheckpointResponse,
)
from tutti.native.deferred import deferred

if TYPE_CHECKING:
    from tutti.committer import curves
else:  # with it comes numpy
    curves = deferred("tutti.committer.curves")

KEYS_TOLD = 20
NOT_COMMITTED = "NOT_COMMITTED"
declare({NOT_COMMITTED: "the checkpoint is not committed, so its bytes are not guaranteed to exist"})


class CommitterApi:
    def __init__(
        self,
        host: Host,
        checkpoints: Resource[Checkpoint],
        lines: Resource[Line],
        *,
        opening: Opening,
        shards: Shards,
        commits: Commits,
        pruning: Pruning,
        records: Records,
        collector: Collector,
        imports: Imports,
    ) -> None:
        self._host, self._checkpoints, self._lines = host, checkpoints, lines
        self._opening, self._shards, self._commits, self._pruning = opening, shards, commits, pruning
        self._records, self._collector, self._imports = records, collector, imports

    def OpenEpoch(self, request: OpenEpochRequest, call: Call) -> OpenEpochResponse:
        required(request, "job", "epoch", "training", "training_digest", "dataset_digest")
        _check_job(request.job)
        return self._opening.open(request)

    def ReportShard(self, request: ReportShardRequest, call: Call) -> ReportShardResponse:
        required(request, "job", "step", "epoch", "node", *([] if request.error else ["report_key", "report_digest"]))
        job = _check_job(request.job)
        name = ShardName(job, request.line, request.step, request.epoch, request.rank).stored_by(request.node)
        if request.error:
            return ReportShardResponse(decided=self._shards.lost(name, node=request.node, error=request.error))
        if request.report_key == name.stored_by("").report_key:  # an agent of an earlier version stored it
            name = name.stored_by("")
        elif request.report_key != name.report_key:
            raise InvalidField("report_key", seen=request.report_key, expected=name.report_key)
        return ReportShardResponse(
            decided=self._shards.report(name, node=request.node, report_digest=request.report_digest)
        )

    def CheckHolder(self, request: CheckHolderRequest, call: Call) -> CheckHolderResponse:
        required(request, "job", "node")
        job = _check_job(request.job)
        iteration = request.iteration if request.HasField("iteration") else None
        sealed = self._host.units.run(
            lambda unit: holders.check(
                self._records,
                unit,
                job,
                epoch=request.epoch,
                node=request.node,
                line=request.line,
                iteration=iteration,
            )
        )
        return CheckHolderResponse(sealed=sealed)

    def ClaimVerification(self, request: ClaimVerificationRequest, call: Call) -> ClaimVerificationResponse:
        required(request, "node", "process")
        claim = self._shards.claim(request.node, request.process)
        if claim is None:
            return ClaimVerificationResponse()
        return ClaimVerificationResponse(
            verification=claim.verification,
            claim=claim.epoch,
            report_key=claim.report_key,
            report_digest=claim.report_digest,
            training=claim.training,
        )

    def ReportVerification(self, request: ReportVerificationRequest, call: Call) -> ReportVerificationResponse:
        required(request, "verification", "claim", "node", "process")
        self._shards.verified(
            request.verification, request.claim, node=request.node, process=request.process, error=request.error
        )
        return ReportVerificationResponse()

    def VerifyCheckpoint(self, request: VerifyCheckpointRequest, call: Call) -> VerifyCheckpointResponse:
        name = check_name("checkpoints", request.name)
        checkpoint = self._commits.decided(name)
        if checkpoint.state not in (CHECKPOINT_STATE_COMMITTED, CHECKPOINT_STATE_QUARANTINED):
            raise Refused(NOT_COMMITTED, f"{name} is not committed, so there is nothing to verify; see its state")
        problems, nbytes = read_checkpoint(self._host, checkpoint)
        if problems:
            checkpoint = self._commits.damaged(name, problems, found_by="verify")
        ok = not problems and checkpoint.state == CHECKPOINT_STATE_COMMITTED
        return VerifyCheckpointResponse(ok=ok, problems=problems, bytes=nbytes, checkpoint=checkpoint)

    def GetCurve(self, request: GetCurveRequest, call: Call) -> GetCurveResponse:
        name = check_name("checkpoints", request.name)
        most = request.max_points or curves.DEFAULT_POINTS
        if not curves.FEWEST_POINTS <= most <= curves.MOST_POINTS:
            expected = f"0, or {curves.FEWEST_POINTS} to {curves.MOST_POINTS}"
            raise InvalidField("max_points", seen=request.max_points, expected=expected)
        return curves.read(self._host, self._checkpoints, name, after=request.after_step, most=most)

    def CreateImport(self, request: CreateImportRequest, call: Call) -> CreateImportResponse:
        return self._imports.create(request, call)

    def PinCheckpoint(self, request: PinCheckpointRequest, call: Call) -> Checkpoint:
        name = check_name("checkpoints", request.name)

        def pin(unit: Unit) -> Checkpoint:
            checkpoint = self._checkpoints.lock(unit, name)
            if checkpoint.state != CHECKPOINT_STATE_COMMITTED:
                raise Refused(NOT_COMMITTED, f"{name} is not committed, so it cannot be pinned; see its state")
            checkpoint.pinned = request.pinned
            return self._checkpoints.put(unit, checkpoint)

        return self._host.units.run(pin)

    def PruneCheckpoints(self, request: PruneCheckpointsRequest, call: Call) -> PruneCheckpointsResponse:
        if request.checkpoint:
            return self._prune_import(request)
        required(request, "job")
        job = _check_job(request.job)
        if request.keep_last < 1:
            raise InvalidField("keep_last", seen=request.keep_last, expected="at least 1: the last good one stays")
        found = self._pruning.prune(job, keep_last=request.keep_last, dry_run=request.validate_only)
        response = self._pruned(request, job, [each for each, reasons in found.items() if not reasons])
        kept = ((each, reasons) for each, reasons in found.items() if reasons)
        response.kept.extend(KeptCheckpoint(name=each.name, reasons=reasons) for each, reasons in kept)
        return response

    def _prune_import(self, request: PruneCheckpointsRequest) -> PruneCheckpointsResponse:
        if request.job or request.keep_last:
            seen = f"{request.job or request.keep_last} beside it"
            raise InvalidField("checkpoint", seen=seen, expected="an import alone, or a job and keep_last")
        name = check_name("checkpoints", request.checkpoint, field="checkpoint")
        chosen = self._pruning.prune_import(name, dry_run=request.validate_only)
        return self._pruned(request, name.split("/")[1], chosen)

    def _pruned(
        self, request: PruneCheckpointsRequest, job: str, chosen: Sequence[CheckpointAge]
    ) -> PruneCheckpointsResponse:
        if chosen and not request.validate_only:
            self._shards.wake(job)
        return PruneCheckpointsResponse(
            checkpoints=[each.name for each in chosen],
            bytes=sum(each.nbytes for each in chosen),
            grace_seconds=self._pruning.settings.grace_seconds,
        )

    def CollectGarbage(self, request: CollectGarbageRequest, call: Call) -> CollectGarbageResponse:
        chosen = [_check_job(request.job)] if request.job else self._host.units.run(self._records.jobs)
        look = self._collector.find if request.validate_only else self._collector.collect
        return CollectGarbageResponse(garbage=[_garbage(each) for job in chosen if (each := look(job)).blobs])


def _garbage(found: JobGarbage) -> Garbage:
    told = Garbage(
        job=f"jobs/{found.job}",
        blobs=len(found.blobs),
        bytes=found.nbytes,
        keys=[each.key for each in found.blobs[:KEYS_TOLD]],
    )
    if not found.due:
        told.due_at.FromMicroseconds(found.due_at)
    return told


def _check_job(name: str) -> str:
    """The id of `jobs/x`; the bare id is taken too. Raises InvalidField."""
    full = name if name.startswith("jobs/") else f"jobs/{name}"
    job = check_name("jobs", full, field="job").removeprefix("jobs/")
    try:
        ShardName.of_report(ShardName(job, 0, 0, 0, 0).report_key)
    except CheckpointError as error:
        raise InvalidField("job", seen=name, expected="jobs/ID") from error
    return job
