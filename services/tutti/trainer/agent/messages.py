"""Messages of an attempt: requests to the I/O child, starts of ranks and reports to the scheduler. Pure."""

from collections.abc import Sequence

from tutti.checkpoints.keys import checkpoint_name, manifest_of
from tutti.contracts.scheduler.v1 import (
    Assignment,
    RankEvent,
    ReportRankRequest,
    ReportStallRequest,
    Spike,
)
from tutti.contracts.trainer.v1 import (
    ExperienceName,
    RankMessage,
    RolledOut,
    Snapshot,
    StagedModel,
    StageRequest,
    StageResponse,
    Start,
    StoreExperience,
    StoreRequest,
)
from tutti.model.stall import Standing
from tutti.model.training import Training
from tutti.trainer import autopsy
from tutti.trainer.agent.localranks import Loss
from tutti.trainer.agent.ports import AgentSettings

CAUSE_CHARACTERS = 4000


def staging(assignment: Assignment, training: Training, request_id: int) -> StageRequest:
    """Return the request for everything that the ranks of an assignment read. Raises CheckpointError."""
    manifest_key, state_digest = assignment.resume_manifest_key, assignment.resume_digest
    if not manifest_key and training.initial is not None:
        manifest_key, state_digest = manifest_of(training.initial.checkpoint), training.initial.state_digest
    return StageRequest(
        id=request_id,
        dataset_manifest_key=assignment.dataset_manifest_key,
        dataset_digest=assignment.dataset_digest,
        resume_manifest_key=manifest_key,
        state_digest=state_digest if manifest_key else "",
        mixed=assignment.mixed,
        tokenizer_key=assignment.tokenizer_key,
        tokenizer_version=training.tokenizer,
        models=[
            StagedModel(role=each.role, manifest_key=manifest_of(each.checkpoint), state_digest=each.state_digest)
            for each in training.models
        ],
    )


def start(
    assignment: Assignment,
    staged: StageResponse,
    settings: AgentSettings,
    *,
    rank: int,
    device: str,
    buffers: Sequence[str],
    rendezvous: str,
    silence_seconds: float,
) -> RankMessage:
    """Return the first message to a rank."""
    resumes = bool(assignment.resume_manifest_key)
    return RankMessage(
        start=Start(
            job=assignment.job,
            epoch=assignment.epoch,
            rank=rank,
            shape=assignment.shape,
            training=assignment.training,
            dataset=staged.dataset,
            mixed=staged.mixed,
            tokenizer=staged.tokenizer,
            models=staged.models,
            resume=staged.resume if resumes else "",
            initial="" if resumes else staged.resume,
            buffers=buffers,
            rendezvous="" if rank == 0 else rendezvous,
            listen=settings.address,
            device=device,
            rendezvous_seconds=settings.meeting,
            silence_seconds=silence_seconds,
            rollouts=assignment.rollouts,
        )
    )


def storing(
    assignment: Assignment, snapshot: Snapshot, *, rank: int, buffer: str, node: str, kernel: str
) -> StoreRequest:
    """Return the request to store a snapshot, without the curve."""
    request = StoreRequest(
        job=assignment.job,
        line=assignment.line,
        step=snapshot.step,
        epoch=assignment.epoch,
        rank=rank,
        shape=assignment.shape,
        training=assignment.training,
        buffer=buffer,
        scalars=snapshot.scalars,
        node=node,
        loss=snapshot.loss,
        kernel=kernel,
    )
    if snapshot.HasField("bits_per_byte"):
        request.bits_per_byte = snapshot.bits_per_byte
    return request


def experience(assignment: Assignment, training: Training, rolled_out: RolledOut) -> StoreExperience:
    """Return the request to store the experience of an iteration."""
    return StoreExperience(
        name=ExperienceName(
            job=assignment.job, line=assignment.line, iteration=rolled_out.iteration, digest=rolled_out.digest
        ),
        checkpoint=checkpoint_of(assignment, training, rolled_out.step),
        data=rolled_out.data,
        epoch=assignment.epoch,
    )


def checkpoint_of(assignment: Assignment, training: Training, step: int) -> str:
    """Return the checkpoint of a job after a step, of its line or where the line began; "" if there is none."""
    begun = assignment.resume_checkpoint
    first = int(begun.rpartition("/")[2]) if begun else 0
    if step <= first:
        return begun if step == first else ""
    own = checkpoint_name(assignment.job.removeprefix("jobs/"), assignment.line, step)
    return own if training.checkpoint_due(step) else ""


def rank_report(
    assignment: Assignment,
    node: str,
    rank: int,
    event: "RankEvent.ValueType",
    *,
    step: int,
    address: str,
    loss: Loss,
    spike: Spike | None = None,
) -> ReportRankRequest:
    """Return the report of an event of a rank; `loss` has the cause of an event that has one."""
    return ReportRankRequest(
        job=assignment.job,
        epoch=assignment.epoch,
        node=node,
        rank=rank,
        event=event,
        address=address,
        cause=loss.cause[:CAUSE_CHARACTERS],
        final=loss.final,
        stop=loss.stop,
        audit=loss.audit,
        consequence=loss.consequence,
        reason=loss.reason,
        spike=spike or loss.spike,
        step=step,
    )


def stall_report(
    assignment: Assignment,
    node: str,
    standings: Sequence[Standing],
    groups: autopsy.Groups,
    *,
    inquiry: int,
    seconds: float,
) -> ReportStallRequest:
    """Return the report of the state of each rank here, as an answer to an inquiry of the scheduler or without one."""
    return ReportStallRequest(
        job=assignment.job,
        epoch=assignment.epoch,
        node=node,
        inquiry=inquiry,
        seconds=seconds,
        ranks=[autopsy.to_wire(each) for each in standings],
        groups=autopsy.groups_to_wire(groups),
    )
