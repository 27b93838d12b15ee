"""Opening an epoch: finish what the last one left, read the resume point back, seal, answer.

A checkpoint that is suspect, or after the trusted step of the request, is not resumed from; the later ones of the line
are marked in the transaction that opens the epoch. A job without a checkpoint of its own starts from its base, a
checkpoint of another job, if it has one; the transaction pins it.

The answer is stored with the epoch, so a repeated call gets the same one; one that comes while a resume point is read
back joins. Another replica reads for itself, which costs reading and nothing else: damage is recorded once, the epoch
is written once, and who comes second gets the answer of the first. Between looking and sealing nothing may have been
decided; if it was, we look again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField, Refused, Unavailable
from tutti.chassis.names import check_name
from tutti.chassis.service import Host
from tutti.chassis.store.bodies import content_digest
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.checkpoints.bodies import decode_body, identity_of
from tutti.checkpoints.manifest import CheckpointBody
from tutti.checkpoints.verification import verify_manifest
from tutti.checkpoints.writer import plan_of
from tutti.committer import epochs
from tutti.committer.commits import Commits
from tutti.committer.epochs import Branch, ResumePoint
from tutti.committer.records import EpochRow, Records, line_name
from tutti.committer.suspects import Suspects, trusted
from tutti.committer.uses import Uses, read_by
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    Checkpoint,
    Line,
    OpenEpochRequest,
    OpenEpochResponse,
)
from tutti.model.plan import Shape
from tutti.model.shapes import to_shape, to_wire
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.records.errors import CorpusError

Adopt = Callable[[str], None]
LOOKS = 20
JOIN_SECONDS = 5.0
"""For a caller to join the read-back of another: less than its deadline, so that it is told to ask again."""


@dataclass(frozen=True)
class _Seen:
    """The state that a resume point was chosen in: the epoch, the lines, the committed checkpoints newest first."""

    epoch: EpochRow | None
    lines: tuple[Line, ...]
    candidates: tuple[Checkpoint, ...]

    @property
    def line(self) -> Line:
        return self.lines[-1] if self.lines else Line()


class Opening:
    def __init__(
        self,
        host: Host,
        records: Records,
        commits: Commits,
        checkpoints: Resource[Checkpoint],
        lines: Resource[Line],
        suspects: Suspects,
        uses: Uses,
        adopt: Adopt,
    ) -> None:
        self.host, self.records, self.commits, self.suspects, self.uses = host, records, commits, suspects, uses
        self.checkpoints, self.lines, self.adopt = checkpoints, lines, adopt
        self._read_back: dict[tuple[str, int], str] = {}
        """Results of read-backs for an epoch that is not open yet: a caller whose deadline passed asks again."""
        self._turns: dict[tuple[str, int], Lock] = {}
        """Running read-backs of checkpoints by epoch; a second caller with the same request joins the first."""

    def open(self, request: OpenEpochRequest) -> OpenEpochResponse:
        """Raises StaleEpoch, AlreadyExists, Refused, InvalidField."""
        job, (training, shape) = request.job.removeprefix("jobs/"), _read(request)
        digest = content_digest(request)
        for _ in range(LOOKS):
            found = self.host.units.run(lambda unit: self.records.epoch(unit, job))
            if epochs.is_repeated(job, request.epoch, digest, found.rules if found else None):
                assert found is not None
                self._forget(job, request.epoch)
                return OpenEpochResponse.FromString(found.response)
            trusted_step = request.trusted_step if request.HasField("trusted_step") else None
            if found is None or not epochs.goes_back(training, Training.from_json(found.training), trusted_step):
                epochs.require_same_job(
                    job,
                    found.rules if found else None,
                    training_digest=training.digest(),
                    dataset_digest=request.dataset_digest,
                )
            if found is not None:
                self.adopt(job)
                self.commits.finish(job)
            with self._turn(request):
                seen = self.host.units.run(lambda unit: self._look(unit, job))
                if seen.epoch != found:
                    continue
                resume, checkpoint = self._resume(seen, request)
            answer = self.host.units.run(
                lambda unit: self._seal(unit, request, digest, training, shape, seen, resume, checkpoint)  # noqa: B023
            )
            if answer is not None:
                self._forget(job, request.epoch)
                return answer
        raise Unavailable(f"{request.job}: something was decided each of {LOOKS} times that we looked; ask again")

    def _forget(self, job: str, epoch: int) -> None:
        """The epoch is open, whoever opened it."""
        memories: tuple[dict[tuple[str, int], Any], ...] = (self._read_back, self._turns)
        for memory in memories:
            for key in [key for key in list(memory) if key[0] == job and key[1] <= epoch]:
                memory.pop(key, None)

    @contextmanager
    def _turn(self, request: OpenEpochRequest) -> Iterator[None]:
        """One read-back at a time for an epoch. Raises Unavailable rather than hold the caller's thread all along."""
        turn = self._turns.setdefault((request.job.removeprefix("jobs/"), request.epoch), Lock())
        if not turn.acquire(timeout=JOIN_SECONDS):
            raise Unavailable(f"{request.job}: the resume point of epoch {request.epoch} is being read back; ask again")
        try:
            yield
        finally:
            turn.release()

    def _look(self, unit: Unit, job: str) -> _Seen:
        lines = sorted(self.lines.select(unit, job=f"jobs/{job}"), key=lambda line: line.line)
        found = self.checkpoints.select(unit, job=f"jobs/{job}", state=CHECKPOINT_STATE_COMMITTED)
        candidates: list[Checkpoint] = []
        if lines:
            stretches = epochs.history(
                [(line.line, line.parent_line, line.from_step) for line in lines], lines[-1].line
            )
            for number, limit in stretches:
                of_line = [each for each in found if each.line == number and (limit is None or each.step <= limit)]
                candidates += sorted(trusted(of_line), key=lambda each: each.step, reverse=True)
        return _Seen(self.records.epoch(unit, job), tuple(lines), tuple(candidates))

    def _resume(self, seen: _Seen, request: OpenEpochRequest) -> tuple[ResumePoint, Checkpoint | None]:
        """The newest committed checkpoint that can be resumed from; damaged ones are quarantined on the way."""
        candidates = seen.candidates
        if request.HasField("trusted_step"):
            candidates = tuple(each for each in candidates if each.step <= request.trusted_step)
        for checkpoint in candidates:
            if not self._damage(checkpoint, request):
                shape = to_shape(checkpoint.shape).shape_digest
                return ResumePoint(checkpoint.line, checkpoint.step, checkpoint.name, shape), checkpoint
        return self._base(request) if request.base else (ResumePoint(), None)

    def _base(self, request: OpenEpochRequest) -> tuple[ResumePoint, Checkpoint]:
        """The checkpoint of another job that this one starts from. Raises NotFound, Refused, InvalidField."""
        base = self.host.units.run(lambda unit: self.checkpoints.get(unit, request.base))
        fault = f"suspect: {base.suspect}" if base.suspect else ""
        if base.state != CHECKPOINT_STATE_COMMITTED:
            fault = f"not committed: {base.reason or 'it was pruned'}"
        fault = fault or self._damage(base, request)
        if fault:
            words = f"{base.name}, which {request.job} starts from, is {fault}; extend or rewind the earlier job again"
            raise Refused(epochs.BASE_UNUSABLE, words)
        body, training = decode_body(self.host.blobs.get(base.manifest_key)), Training.from_json(request.training)
        if not (isinstance(body, CheckpointBody) and training.continues(body.training)):
            expected = "a checkpoint of the same training, apart from its steps and the data that are left out"
            raise InvalidField("base", seen=base.name, expected=expected)
        return ResumePoint(0, base.step, base.name, to_shape(base.shape).shape_digest), base

    def _damage(self, checkpoint: Checkpoint, request: OpenEpochRequest) -> str:
        """Read a checkpoint back, unless that was done for this epoch; a damaged one is quarantined."""
        asked = (request.job.removeprefix("jobs/"), request.epoch)
        if self._read_back.get(asked) == checkpoint.name:
            return ""
        problems = read_checkpoint(self.host, checkpoint)[0]
        if not problems:
            self._read_back[asked] = checkpoint.name
            return ""
        self.commits.damaged(checkpoint.name, problems, found_by=f"opening epoch {request.epoch}")
        return f"damaged: {problems[0]}"

    def _seal(
        self,
        unit: Unit,
        request: OpenEpochRequest,
        digest: str,
        training: Training,
        shape: Shape,
        seen: _Seen,
        resume: ResumePoint,
        checkpoint: Checkpoint | None,
    ) -> OpenEpochResponse | None:
        """Open the epoch; None when something was decided, opened, pruned or quarantined since we looked."""
        job = request.job.removeprefix("jobs/")
        if self.records.epoch(unit, job, lock=True) != seen.epoch:
            return None
        if checkpoint and not self._still(unit, checkpoint.name, is_base=checkpoint.name == request.base):
            return None
        self._require_models(unit, request.job, training, resumes=bool(resume.checkpoint))
        taken = self.records.decided_steps(unit, job, seen.line.line)
        branch = epochs.branch(
            resume,
            line=seen.line.line,
            from_step=seen.line.from_step,
            lines=len(seen.lines),
            taken=taken,
            doubted=request.HasField("trusted_step") and bool(seen.lines),
        )
        transition = epochs.transition_used(resume, shape_digest=shape.shape_digest, transition=request.transition)
        if request.HasField("trusted_step"):
            self.suspects.mark(unit, job, seen.line.line, request.trusted_step, request.cause)
        self._write_lines(unit, request, shape, seen, branch, transition)
        answer = OpenEpochResponse(
            checkpoint=resume.checkpoint,
            manifest_key=checkpoint.manifest_key if checkpoint else "",
            step=resume.step,
            line=branch.line,
            state_digest=checkpoint.state_digest if checkpoint else "",
            shape=checkpoint.shape if checkpoint else None,
        )
        row = EpochRow(
            job=job,
            epoch=request.epoch,
            line=branch.line,
            nodes=request.nodes,
            steps=training.steps,
            base=resume.step,
            parent=resume.checkpoint,
            ranks=shape.ranks,
            shape_digest=shape.shape_digest,
            training=training.to_json(),
            training_digest=training.digest(),
            dataset_digest=request.dataset_digest,
            request_digest=digest,
            opened_at=micros(unit.now),
            response=answer.SerializeToString(deterministic=True),
        )
        self.records.put_epoch(unit, row)
        self.records.put_placement(unit, job, request.epoch, request.placement)
        self.records.forget_sealed(unit, job, request.epoch)
        return answer

    def _require_models(self, unit: Unit, job: str, training: Training, *, resumes: bool) -> None:
        """Record which checkpoints of others a job reads, so that they are not pruned. Raises Refused for a pruned one.

        One that resumes does not need the checkpoint that it began with.
        """
        for name in sorted(read_by(training)):
            begun = resumes and training.initial is not None and name == training.initial.checkpoint
            if begun or self.checkpoints.find(unit, name) is None:
                continue
            if self.checkpoints.lock(unit, name).state == CHECKPOINT_STATE_PRUNED:
                words = f"{name}, which {job} reads, was pruned; import its folder or train it again"
                raise Refused(epochs.BASE_UNUSABLE, words)
        self.uses.record(unit, job, read_by(training))

    def _still(self, unit: Unit, name: str, *, is_base: bool) -> bool:
        """True if a checkpoint can still be resumed from. A base is pinned: retention of its job sees no line here."""
        checkpoint = self.checkpoints.lock(unit, name)
        if checkpoint.state != CHECKPOINT_STATE_COMMITTED or (is_base and checkpoint.suspect):
            return False
        if is_base and not checkpoint.pinned:
            checkpoint.pinned = True
            self.checkpoints.put(unit, checkpoint)
        return True

    def _write_lines(
        self, unit: Unit, request: OpenEpochRequest, shape: Shape, seen: _Seen, branch: Branch, transition: str
    ) -> None:
        job = request.job.removeprefix("jobs/")
        if seen.lines:
            current = self.lines.lock(unit, seen.line.name)
            if branch.is_new:
                current.sealed = True
            else:
                current.epoch, current.given_up, current.given_up_because = request.epoch, 0, ""
                current.reason, current.stuck = "", False
                current.shape.CopyFrom(to_wire(shape))
                current.transition = transition
            self.lines.put(unit, current)
        if branch.is_new or not seen.lines:
            cause = request.cause
            if seen.lines and not request.HasField("trusted_step"):
                cause = f"what line {seen.line.line} held after step {branch.from_step} is damaged"
            self.lines.create(
                unit,
                Line(
                    name=line_name(job, branch.line),
                    job=f"jobs/{job}",
                    line=branch.line,
                    parent_line=branch.parent_line,
                    from_step=branch.from_step,
                    epoch=request.epoch,
                    shape=to_wire(shape),
                    transition=transition,
                    head=branch.from_step,
                    cause=cause,
                ),
            )


def read_checkpoint(host: Host, checkpoint: Checkpoint) -> tuple[list[str], int]:
    """Read a committed checkpoint back: what is wrong, in words, and how many bytes were read."""
    key, identity = checkpoint.manifest_key, identity_of(checkpoint)
    try:
        body = decode_body(host.blobs.get(key))
    except BlobMissing:
        return [f"{key}: no such blob, expected a manifest of {identity}"], 0
    except CorpusError as error:
        return [f"{key}: {error}"], 0
    if (body.name, body.identity) != (checkpoint.name, identity):
        return [f"{key}: seen {body.name} with {body.identity}, expected {identity}"], 0
    found = verify_manifest(host.blobs, body)
    return [str(problem) for problem in found.problems], found.nbytes


def _read(request: OpenEpochRequest) -> tuple[Training, Shape]:
    """The training and shape of a request whose parts agree. Raises InvalidField."""
    if not request.epoch:
        raise InvalidField("epoch", seen=0, expected="a positive number, above all that were opened")
    job = request.job.removeprefix("jobs/")
    if request.transition and not check_name("transitions", request.transition, field="transition").startswith(
        f"transitions/{job}/"
    ):
        raise InvalidField(
            "transition", seen=request.transition, expected=f"a transition of this job, transitions/{job}/N"
        )
    if request.rewind:
        raise InvalidField("rewind", seen=True, expected="another job, with a base (tutti jobs rewind)")
    if request.base and check_name("checkpoints", request.base, field="base").split("/")[1] == job:
        raise InvalidField("base", seen=request.base, expected="a checkpoint of another job")
    if (request.base or request.HasField("trusted_step")) and not request.cause:
        raise InvalidField("cause", seen="nothing", expected="why the job does not resume from its newest state")
    try:
        training = Training.from_json(request.training)
    except SpecError as error:
        raise InvalidField("training", seen=str(error), expected="a training as canonical JSON") from error
    for field, seen, expected in (
        ("training_digest", request.training_digest, training.digest()),
        ("dataset_digest", request.dataset_digest, training.dataset),
    ):
        if seen != expected:
            raise InvalidField(field, seen=seen or "nothing", expected=f"{expected}, as the training says")
    try:
        shape = to_shape(request.shape)
        plan_of(training, shape)
    except SpecError as error:
        raise InvalidField("shape", seen=str(error), expected="a shape that this training can have") from error
    if request.placement and len(request.placement) < shape.ranks:
        expected = f"the nodes of {shape.ranks} ranks"
        raise InvalidField("placement", seen=f"{len(request.placement)} nodes", expected=expected)
    for node in request.placement:
        check_name("nodes", node, field="placement")
    if request.shape.digest and request.shape.digest != shape.shape_digest:
        raise InvalidField("shape.digest", seen=request.shape.digest, expected=shape.shape_digest)
    return training, shape
