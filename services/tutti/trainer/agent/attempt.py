"""An attempt: the part of one epoch of one job that runs on this node.

It goes from staging over buffers to running ranks, and ends in one way only: all its processes gone. Whoever reads a
cause finds the first one, not what followed from it.
"""

import logging
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from tutti.backbone.clock import Clock
from tutti.chassis.config.memory import kernel_kills
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.writer import plan_of
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_DISTURBED,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    RANK_EVENT_SPAWNED,
    Assignment,
    RankEvent,
    ReportProgressRequest,
    ReportRankRequest,
    ReportStallRequest,
    Spike,
)
from tutti.contracts.trainer.v1 import (
    BufferFree,
    BuffersRequest,
    BuffersResponse,
    Heartbeat,
    IoMessage,
    Listening,
    RankMessage,
    RolledOut,
    Snapshot,
    StageResponse,
    Stop,
    StoreExperience,
    StoreRequest,
)
from tutti.model.shapes import to_shape
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.native.deferred import deferred
from tutti.platform.heartbeattimeout import Doubling
from tutti.trainer.agent import measures, messages
from tutti.trainer.agent.localranks import LocalRank, Loss, all_ended, first_loss
from tutti.trainer.agent.ports import AgentSettings, Launcher, LaunchError, RankProcess
from tutti.trainer.agent.stalls import StallWatch
from tutti.trainer.agent.stepprogress import StepProgress
from tutti.trainer.failures import Reason

if TYPE_CHECKING:
    from tutti.checkpoints import curve
else:  # with it comes numpy
    curve = deferred("tutti.checkpoints.curve")

log = logging.getLogger(__name__)


class Phase(Enum):
    """The phase of an attempt."""

    STAGING = "staging"
    BUFFERS = "making buffers"
    RUNNING = "running"
    AUTOPSY = "collecting flight records"
    ENDING = "ending its processes"
    GONE = "gone"


Report = Callable[[ReportRankRequest | ReportProgressRequest | ReportStallRequest], None]


class Attempt:
    """Driven by `step`; what it wants to say goes out through `ask` (I/O child) and `report` (scheduler)."""

    def __init__(
        self,
        assignment: Assignment,
        settings: AgentSettings,
        clock: Clock,
        launcher: Launcher,
        *,
        ask: Callable[[IoMessage], None],
        report: Report,
        next_id: Callable[[], int],
        doubling: Doubling,
    ) -> None:
        """`doubling`: of the time limits of the ranks of this node, shared by its attempts."""
        self.assignment, self.phase = assignment, Phase.STAGING
        self._settings, self._clock, self._launcher = settings, clock, launcher
        self._ask, self._report, self._next_id = ask, report, next_id
        self._doubling = doubling
        self._local_ranks: dict[int, LocalRank] = {}
        self._wanted: dict[int, IoMessage] = {}
        self._buffers: dict[int, tuple[str, ...]] = {}
        self._ranks_of_requests: dict[int, int] = {}
        self._stores: dict[str, StoreRequest] = {}
        self._experiences: dict[str, StoreExperience] = {}
        self._staged = StageResponse()
        self._rendezvous = ""
        self._stopping = False
        self._begun_at = self._beat_at = clock.monotonic()
        self._stalls = StallWatch(assignment, settings, self._local_ranks, doubling, report=report, now=self._begun_at)
        measures.began(assignment.job, self._begun_at)
        self._step_progress = StepProgress(
            assignment.job, assignment.epoch, settings.name, seconds=settings.progress, now=self._begun_at
        )
        self._curve = curve.Recorder()
        self._plan = None
        try:
            self._training = Training.from_json(assignment.training)
            shape = to_shape(assignment.shape)
            self._plan, self._stalls.size = plan_of(self._training, shape), shape.ranks + assignment.rollouts
            staging = messages.staging(assignment, self._training, next_id())
        except (SpecError, CheckpointError) as error:
            self.lose(Loss(tuple(assignment.ranks), f"the assignment cannot be carried out: {error}"))
            return
        self._want(IoMessage(stage=staging))

    @property
    def key(self) -> tuple[str, int]:
        return self.assignment.job, self.assignment.epoch

    @property
    def processes(self) -> Iterator[RankProcess]:
        return (local.process for local in self._local_ranks.values())

    @property
    def steps(self) -> dict[int, int]:
        """The last step of each rank."""
        return {local.rank: local.step for local in self._local_ranks.values()}

    @property
    def _actors(self) -> list[int]:
        """The ranks here that keep a part of the state; the others are rollout workers."""
        assert self._plan is not None
        return [rank for rank in self.assignment.ranks if rank in self._plan.ranks]

    @property
    def all_finished(self) -> bool:
        return bool(self._local_ranks) and all(local.finished for local in self._local_ranks.values())

    @property
    def handed_over(self) -> bool:
        """True if every snapshot has left its buffer, and every experience is on disk."""
        return not (self._stores or self._experiences)

    def rendezvous(self, address: str) -> None:
        """The address is known: tell the ranks that wait for it."""
        if address and address != self._rendezvous:
            self._rendezvous = address
            for local in self._local_ranks.values():
                if local.rank != 0:
                    local.process.send(RankMessage(rendezvous=Listening(address=address)))

    def inquired(self, inquiry: int, *, settled: int) -> None:
        """Answer an inquiry of the scheduler; with one that is `settled`, the ranks go on."""
        now = self._clock.monotonic()
        if not self._stalls.inquired(inquiry, settled=settled, now=now):
            return
        if self.phase in (Phase.STAGING, Phase.BUFFERS):
            self._stalls.answer_without_ranks()
        elif self.phase is Phase.RUNNING:
            self.phase = Phase.AUTOPSY
            self._stalls.answer(now)

    def joined(self, inquiry: int) -> None:
        """The scheduler counts the last report for this inquiry."""
        self._stalls.joined(inquiry)

    def ask_again(self) -> None:
        """Another I/O child took over: repeat what the last one left unanswered."""
        stores = [IoMessage(store=store) for store in self._stores.values()]
        experiences = [IoMessage(experience=experience) for experience in self._experiences.values()]
        for message in [*self._wanted.values(), *stores, *experiences]:
            self._ask(message)

    def disturbed(self, cause: str) -> None:
        """Something beside the ranks had to be replaced; they go on."""
        if self.phase not in (Phase.ENDING, Phase.GONE):
            self._tell(min(self.assignment.ranks), RANK_EVENT_DISTURBED, cause=cause)

    def staged(self, answer: StageResponse) -> bool:
        """True if the answer was for this attempt."""
        if self._wanted.pop(answer.id, None) is None:
            return False
        if self.phase is not Phase.STAGING:
            return True
        if answer.error:
            self.lose(Loss(tuple(self.assignment.ranks), answer.error))
            return True
        self._staged, self.phase = answer, Phase.BUFFERS
        measures.staged(self.assignment.job, answer.found_bytes, answer.brought_bytes)
        assert self._plan is not None
        for rank in self._actors:
            request = BuffersRequest(
                id=self._next_id(),
                job=self.assignment.job,
                epoch=self.assignment.epoch,
                rank=rank,
                bytes=self._plan.snapshot_size(rank),
                count=self._settings.buffers,
            )
            self._ranks_of_requests[request.id] = rank
            self._want(IoMessage(buffers=request))
        if not self._actors:
            self._launch()
        return True

    def buffers_made(self, answer: BuffersResponse) -> bool:
        """True if the answer was for this attempt."""
        if self._wanted.pop(answer.id, None) is None:
            return False
        if self.phase is Phase.BUFFERS:
            rank = self._ranks_of_requests[answer.id]
            if answer.error:
                self.lose(Loss((rank,), answer.error, reason=Reason.OUT_OF_MEMORY))
                return True
            self._buffers[rank] = tuple(answer.paths)
            if len(self._buffers) == len(self._actors):
                self._launch()
        return True

    def spooled(self, buffer: str) -> bool:
        """A buffer is free again; whether it is one of this attempt."""
        if self._stores.pop(buffer, None) is None:
            return False
        for local in self._local_ranks.values():
            if buffer in local.buffers:
                local.process.send(RankMessage(buffer_free=BufferFree(buffer=local.buffers.index(buffer))))
        return True

    def experience_kept(self, digest: str) -> bool:
        """It is on the disk; whether it is one of this attempt."""
        return self._experiences.pop(digest, None) is not None

    def stop_gently(self) -> None:
        """Ask the ranks to end at a step boundary."""
        self._stopping = True
        for local in self._local_ranks.values():
            local.process.send(RankMessage(stop=Stop()))

    def end(self) -> None:
        """End the processes now; nothing is reported lost, because this was wanted."""
        if self.phase not in (Phase.ENDING, Phase.GONE):
            self._kill()

    def lose(self, loss: Loss) -> None:
        """Report the loss that ends this attempt, and end its processes. A loss after the first one has no effect."""
        if self.phase in (Phase.ENDING, Phase.GONE):
            return
        log.warning("%s, epoch %d: %s", *self.key, loss.cause)
        if loss.spike is None:
            measures.losses.labels(self.assignment.job).inc()
        elif 0 in self.assignment.ranks:  # as of other spikes, which rank 0 alone reports
            measures.spikes.labels(self.assignment.job).inc()
        for rank in loss.ranks or tuple(self.assignment.ranks)[:1]:
            self._tell(rank, RANK_EVENT_LOST, loss=loss)
        self._kill()

    def step(self) -> bool:
        """Look at the ranks; whether anything happened."""
        did = False
        for local in self._local_ranks.values():
            for message in local.process.receive():
                did = True
                self._take(local, message)
        now = self._clock.monotonic()
        match self.phase:
            case Phase.RUNNING:
                self._beat(now)
                self._watch(now)
                self._tell_progress(now, final=False)
            case Phase.AUTOPSY:
                self._beat(now)
                if self._stalls.due(now):
                    self.phase = Phase.RUNNING
                    if (loss := self._stalls.examine(now)) is not None:
                        self.lose(loss)
            case Phase.ENDING if all(local.process.gone for local in self._local_ranks.values()):
                self.phase, did = Phase.GONE, True
                measures.ended(self.assignment.job)
                for local in self._local_ranks.values():
                    local.process.close()
        return did

    def _want(self, message: IoMessage) -> None:
        request = message.stage if message.WhichOneof("body") == "stage" else message.buffers
        self._wanted[request.id] = message
        self._ask(message)

    def _launch(self) -> None:
        given, settings = self.assignment, self._settings
        self.phase = Phase.RUNNING
        measures.ranks.labels(self.assignment.job).set(len(self.assignment.ranks))
        devices = list(given.devices) or ["cpu"] * len(given.ranks)
        for rank, device in zip(given.ranks, devices, strict=True):
            try:
                process = self._launcher.launch(device)
            except LaunchError as error:
                self.lose(Loss((rank,), str(error)))
                return
            now = self._clock.monotonic()
            self._local_ranks[rank] = LocalRank(
                rank, process, heard=now, buffers=self._buffers.get(rank, ()), worked_at=now, kills=kernel_kills()
            )
            process.send(
                messages.start(
                    given,
                    self._staged,
                    settings,
                    rank=rank,
                    device=device,
                    buffers=self._buffers.get(rank, ()),
                    rendezvous=self._rendezvous,
                    silence_seconds=self._doubling.limit(settings.silence),
                )
            )
            self._tell(rank, RANK_EVENT_SPAWNED)
        self._stalls.worked_at = self._clock.monotonic()

    def _take(self, local: LocalRank, message: RankMessage) -> None:
        local.heard, local.met = self._clock.monotonic(), True
        match message.WhichOneof("body"):
            case "listening":
                self._tell(local.rank, RANK_EVENT_LISTENING, address=message.listening.address)
                self.rendezvous(message.listening.address)
            case "ready":
                local.step, local.kernel = message.ready.step, message.ready.kernel
                self._stalls.worked_at = local.worked_at = local.heard
                measures.restore.labels(self.assignment.job).observe(local.heard - self._begun_at)
                self._tell(local.rank, RANK_EVENT_READY)
                if message.ready.note and local.rank == min(self._local_ranks):
                    self._tell(local.rank, RANK_EVENT_DISTURBED, cause=message.ready.note)
                counts = message.ready.leaves, message.ready.chunks
                log.info(
                    "rank %d of %s computes %d leaves and keeps %d chunks", local.rank, self.assignment.job, *counts
                )
            case "heartbeat" if message.heartbeat.work != local.work:
                local.work, self._stalls.worked_at = message.heartbeat.work, local.heard
                local.worked_at = local.heard
                self._step_progress.worked()
            case "progress":
                local.step, self._stalls.worked_at = message.progress.step, local.heard
                local.worked_at = local.heard
                if local.rank == min(self._local_ranks):
                    measures.progress(self.assignment.job, message.progress, local.heard)
                    self._step_progress.add(message.progress)
                    measures.record(self._curve, message.progress)
                    if message.progress.HasField("spike"):
                        self._tell(local.rank, RANK_EVENT_DISTURBED, spike=message.progress.spike)
            case "snapshot":
                if local.rank == min(self._local_ranks):  # of one rank of a node, as the time of its steps
                    measures.stall.labels(self.assignment.job).observe(message.snapshot.seconds)
                self._store(local, message.snapshot)
            case "rolled_out":
                self._keep(message.rolled_out)
            case "finished":
                local.finished = True
                self._tell_progress(local.heard, final=True)
                self._tell(local.rank, RANK_EVENT_FINISHED)
            case "failed":
                local.failed = message.failed
            case "flight_record":
                local.record = message.flight_record

    def _store(self, local: LocalRank, snapshot: Snapshot) -> None:
        buffer, node = local.buffers[snapshot.buffer], self._settings.name
        request = messages.storing(
            self.assignment, snapshot, rank=local.rank, buffer=buffer, node=node, kernel=local.kernel
        )
        if local.rank == min(self._local_ranks):
            request.curve = self._curve.take().encode()
        self._stores[request.buffer] = request
        self._ask(IoMessage(store=request))

    def _keep(self, rolled_out: RolledOut) -> None:
        request = messages.experience(self.assignment, self._training, rolled_out)
        self._experiences[rolled_out.digest] = request
        self._ask(IoMessage(experience=request))

    def _beat(self, now: float) -> None:
        if now - self._beat_at >= min(1.0, self._settings.silence / 4):
            self._beat_at = now
            for local in self._local_ranks.values():
                local.process.send(RankMessage(heartbeat=Heartbeat()))

    def _watch(self, now: float) -> None:
        """End the attempt when a rank ended; ask all for flight records when one is silent, or when none computes."""
        local_ranks = list(self._local_ranks.values())
        if self._stopping and local_ranks and all_ended(local_ranks):
            # One rank leaves at its boundary, another loses contact in the step after: both were asked to.
            return self.end()
        if (loss := first_loss(local_ranks, now=now, settle=self._settings.settle)) is not None:
            return self.lose(loss)
        if self._stalls.suspects(now):
            self.phase = Phase.AUTOPSY
        return None

    def _tell_progress(self, now: float, *, final: bool) -> None:
        """Report the newest step that all ranks here have crossed, if that is due."""
        if not self._actors or not self._local_ranks:
            return
        step = min(self._local_ranks[rank].step for rank in self._actors)
        if (report := self._step_progress.report(step, now, final=final)) is not None:
            self._report(report)

    def _tell(
        self,
        rank: int,
        event: "RankEvent.ValueType",
        *,
        address: str = "",
        cause: str = "",
        loss: Loss | None = None,
        spike: Spike | None = None,
    ) -> None:
        local, node = self._local_ranks.get(rank), self._settings.name
        step = local.step if local else 0
        self._report(
            messages.rank_report(
                self.assignment,
                node,
                rank,
                event,
                step=step,
                address=address,
                loss=loss or Loss((), cause),
                spike=spike,
            )
        )

    def _kill(self) -> None:
        self.phase = Phase.ENDING
        self._wanted.clear()
        for local in self._local_ranks.values():
            local.process.kill()
