"""An attempt: the part of one epoch of one job that runs on this node.

It goes from staging over buffers to running ranks, and ends in one way only: all its processes gone. Whoever reads a
cause finds the first one, not what followed from it.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tutti.backbone.clock import Clock
from tutti.checkpoints.errors import CheckpointError
from tutti.checkpoints.keys import checkpoint_name, manifest_of
from tutti.checkpoints.writer import plan_of
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_DISTURBED,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_LOST,
    RANK_EVENT_READY,
    RANK_EVENT_SPAWNED,
    Assignment,
    AuditFailure,
    PolicyStop,
    RankEvent,
    ReportProgressRequest,
    ReportRankRequest,
    ReportStallRequest,
)
from tutti.contracts.trainer.v1 import (
    BufferFree,
    BuffersRequest,
    BuffersResponse,
    Dump,
    ExperienceName,
    Heartbeat,
    IoMessage,
    Listening,
    RankMessage,
    RolledOut,
    Snapshot,
    StagedModel,
    StageRequest,
    StageResponse,
    Start,
    Stop,
    StoreExperience,
    StoreRequest,
)
from tutti.model.shapes import to_shape
from tutti.model.spec import SpecError
from tutti.model.stall import Gang, Standing, examine
from tutti.model.training import Training
from tutti.native.deferred import deferred
from tutti.platform.patience import Doubling
from tutti.trainer import autopsy
from tutti.trainer.agent import measures
from tutti.trainer.agent.crossings import Crossings
from tutti.trainer.agent.places import Place, all_ended, first_loss
from tutti.trainer.agent.ports import AgentSettings, Launcher, LaunchError, RankProcess
from tutti.trainer.lifeline import WAITING_FOR_BUFFER, WAITING_FOR_WEIGHTS

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
        self._places: dict[int, Place] = {}
        self._wanted: dict[int, IoMessage] = {}
        self._buffers: dict[int, tuple[str, ...]] = {}
        self._ranks_of_requests: dict[int, int] = {}
        self._stores: dict[str, StoreRequest] = {}
        self._experiences: dict[str, StoreExperience] = {}
        self._staged = StageResponse()
        self._rendezvous = ""
        self._deadline = 0.0
        self._silent: tuple[int, ...] = ()
        self._suspects, self._decides = False, False
        self._inquiry, self._joined, self._settled = 0, 0, 0
        self._verdict_at: float | None = None
        self._stopping = False
        self._begun_at = self._worked_at = self._beat_at = clock.monotonic()
        measures.began(assignment.job, self._begun_at)
        self._crossings = Crossings(
            assignment.job, assignment.epoch, settings.name, seconds=settings.progress, now=self._begun_at
        )
        self._curve = curve.Recorder()
        self._plan, self._size = None, 0
        try:
            self._training = Training.from_json(assignment.training)
            shape = to_shape(assignment.shape)
            self._plan, self._size = plan_of(self._training, shape), shape.ranks + assignment.rollouts
            start_from, models = _start_from(assignment, self._training), _models(self._training)
        except (SpecError, CheckpointError) as error:
            self.lose(tuple(assignment.ranks), f"the assignment cannot be carried out: {error}")
            return
        self._want(
            IoMessage(
                stage=StageRequest(
                    id=next_id(),
                    dataset_manifest_key=assignment.dataset_manifest_key,
                    dataset_digest=assignment.dataset_digest,
                    resume_manifest_key=start_from.manifest_key,
                    state_digest=start_from.state_digest,
                    mixed=assignment.mixed,
                    tokenizer_key=assignment.tokenizer_key,
                    tokenizer_version=self._training.tokenizer,
                    models=models,
                )
            )
        )

    @property
    def key(self) -> tuple[str, int]:
        return self.assignment.job, self.assignment.epoch

    @property
    def processes(self) -> Iterator[RankProcess]:
        return (place.process for place in self._places.values())

    @property
    def steps(self) -> dict[int, int]:
        """The last step of each rank."""
        return {place.rank: place.step for place in self._places.values()}

    @property
    def _actors(self) -> list[int]:
        """The ranks here that keep a part of the state; the others are rollout workers."""
        assert self._plan is not None
        return [rank for rank in self.assignment.ranks if rank in self._plan.ranks]

    @property
    def all_finished(self) -> bool:
        return bool(self._places) and all(place.finished for place in self._places.values())

    @property
    def handed_over(self) -> bool:
        """True if every snapshot has left its buffer, and every experience is on disk."""
        return not (self._stores or self._experiences)

    def rendezvous(self, address: str) -> None:
        """The address is known: tell the ranks that wait for it."""
        if address and address != self._rendezvous:
            self._rendezvous = address
            for place in self._places.values():
                if place.rank != 0:
                    place.process.send(RankMessage(rendezvous=Listening(address=address)))

    def inquired(self, inquiry: int, *, settled: int) -> None:
        """Answer an inquiry of the scheduler; with one that is `settled`, the ranks go on."""
        if settled > self._settled:
            self._settled, self._verdict_at, self._worked_at = settled, None, self._clock.monotonic()
        if inquiry <= max(settled, self._joined):
            return
        self._inquiry = self._joined = inquiry
        if self.phase in (Phase.STAGING, Phase.BUFFERS):
            self._tell_stall([autopsy.staging(rank) for rank in self.assignment.ranks], {}, seconds=0.0)
        elif self.phase is Phase.RUNNING:
            self._suspects, self._silent = False, ()
            self._dump(self._settings.silence / 2)

    def joined(self, inquiry: int) -> None:
        """The scheduler counts the last report for this inquiry."""
        self._joined = max(self._joined, inquiry)

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
            self.lose(tuple(self.assignment.ranks), answer.error)
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
                self.lose((rank,), answer.error)
                return True
            self._buffers[rank] = tuple(answer.paths)
            if len(self._buffers) == len(self._actors):
                self._launch()
        return True

    def spooled(self, buffer: str) -> bool:
        """A buffer is free again; whether it is one of this attempt."""
        if self._stores.pop(buffer, None) is None:
            return False
        for place in self._places.values():
            if buffer in place.buffers:
                place.process.send(RankMessage(buffer_free=BufferFree(buffer=place.buffers.index(buffer))))
        return True

    def experience_kept(self, digest: str) -> bool:
        """It is on the disk; whether it is one of this attempt."""
        return self._experiences.pop(digest, None) is not None

    def stop_gently(self) -> None:
        """Ask the ranks to end at a step boundary."""
        self._stopping = True
        for place in self._places.values():
            place.process.send(RankMessage(stop=Stop()))

    def end(self) -> None:
        """End the processes now; nothing is reported lost, because this was wanted."""
        if self.phase not in (Phase.ENDING, Phase.GONE):
            self._kill()

    def lose(
        self,
        ranks: tuple[int, ...],
        cause: str,
        *,
        final: bool = False,
        stop: PolicyStop | None = None,
        audit: AuditFailure | None = None,
        consequence: bool = False,
    ) -> None:
        """The attempt is void because of these ranks: say so at once, and end the others. `final`: so is the next;
        `stop`: because of this stop rule; `audit`: because of this audit; `consequence`: because of ranks on other
        nodes.
        """
        if self.phase in (Phase.ENDING, Phase.GONE):
            return
        log.warning("%s, epoch %d: %s", *self.key, cause)
        measures.losses.labels(self.assignment.job).inc()
        for rank in ranks or tuple(self.assignment.ranks)[:1]:
            self._tell(rank, RANK_EVENT_LOST, cause=cause, final=final, stop=stop, audit=audit, consequence=consequence)
        self._kill()

    def step(self) -> bool:
        """Look at the ranks; whether anything happened."""
        did = False
        for place in self._places.values():
            for message in place.process.receive():
                did = True
                self._take(place, message)
        now = self._clock.monotonic()
        match self.phase:
            case Phase.RUNNING:
                self._beat(now)
                self._watch(now)
                self._tell_progress(now, final=False)
            case Phase.AUTOPSY:
                self._beat(now)
                self._examine(now)
            case Phase.ENDING if all(place.process.gone for place in self._places.values()):
                self.phase, did = Phase.GONE, True
                measures.ranks.labels(self.assignment.job).set(0)
                for place in self._places.values():
                    place.process.close()
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
                self.lose((rank,), str(error))
                return
            now = self._clock.monotonic()
            self._places[rank] = Place(rank, process, heard=now, buffers=self._buffers.get(rank, ()), worked_at=now)
            process.send(
                RankMessage(
                    start=Start(
                        job=given.job,
                        epoch=given.epoch,
                        rank=rank,
                        shape=given.shape,
                        training=given.training,
                        dataset=self._staged.dataset,
                        mixed=self._staged.mixed,
                        tokenizer=self._staged.tokenizer,
                        models=self._staged.models,
                        resume=self._staged.resume if given.resume_manifest_key else "",
                        initial="" if given.resume_manifest_key else self._staged.resume,
                        buffers=self._buffers.get(rank, ()),
                        rendezvous="" if rank == 0 else self._rendezvous,
                        listen=settings.address,
                        device=device,
                        rendezvous_seconds=settings.meeting,
                        silence_seconds=self._doubling.limit(settings.silence),
                        rollouts=given.rollouts,
                    )
                )
            )
            self._tell(rank, RANK_EVENT_SPAWNED)
        self._worked_at = self._clock.monotonic()

    def _take(self, place: Place, message: RankMessage) -> None:
        place.heard, place.met = self._clock.monotonic(), True
        match message.WhichOneof("body"):
            case "listening":
                self._tell(place.rank, RANK_EVENT_LISTENING, address=message.listening.address)
                self.rendezvous(message.listening.address)
            case "ready":
                place.step, place.kernel = message.ready.step, message.ready.kernel
                self._worked_at = place.worked_at = place.heard
                measures.restore.labels(self.assignment.job).observe(place.heard - self._begun_at)
                self._tell(place.rank, RANK_EVENT_READY)
                if message.ready.note and place.rank == min(self._places):
                    self._tell(place.rank, RANK_EVENT_DISTURBED, cause=message.ready.note)
                counts = message.ready.leaves, message.ready.chunks
                log.info(
                    "rank %d of %s computes %d leaves and keeps %d chunks", place.rank, self.assignment.job, *counts
                )
            case "heartbeat" if message.heartbeat.work != place.work:
                place.work, self._worked_at = message.heartbeat.work, place.heard
                place.worked_at = place.heard
                self._crossings.worked()
            case "progress":
                place.step, self._worked_at = message.progress.step, place.heard
                place.worked_at = place.heard
                if place.rank == min(self._places):
                    measures.progress(self.assignment.job, message.progress, place.heard)
                    self._crossings.add(message.progress)
                    measures.record(self._curve, message.progress)
            case "snapshot":
                if place.rank == min(self._places):  # of one rank of a node, as the time of its steps
                    measures.stall.labels(self.assignment.job).observe(message.snapshot.seconds)
                self._store(place, message.snapshot)
            case "rolled_out":
                self._keep(message.rolled_out)
            case "finished":
                place.finished = True
                self._tell_progress(place.heard, final=True)
                self._tell(place.rank, RANK_EVENT_FINISHED)
            case "failed":
                place.failed = message.failed
            case "flight_record":
                place.record = message.flight_record

    def _store(self, place: Place, snapshot: Snapshot) -> None:
        given = self.assignment
        request = StoreRequest(
            job=given.job,
            line=given.line,
            step=snapshot.step,
            epoch=given.epoch,
            rank=place.rank,
            shape=given.shape,
            training=given.training,
            buffer=place.buffers[snapshot.buffer],
            scalars=snapshot.scalars,
            node=self._settings.name,
            loss=snapshot.loss,
            kernel=place.kernel,
        )
        if snapshot.HasField("bits_per_byte"):
            request.bits_per_byte = snapshot.bits_per_byte
        if place.rank == min(self._places):
            request.curve = self._curve.take().encode()
        self._stores[request.buffer] = request
        self._ask(IoMessage(store=request))

    def _keep(self, rolled_out: RolledOut) -> None:
        job, line = self.assignment.job, self.assignment.line
        request = StoreExperience(
            name=ExperienceName(job=job, line=line, iteration=rolled_out.iteration, digest=rolled_out.digest),
            checkpoint=self._checkpoint_of(rolled_out.step),
            data=rolled_out.data,
            epoch=self.assignment.epoch,
        )
        self._experiences[rolled_out.digest] = request
        self._ask(IoMessage(experience=request))

    def _checkpoint_of(self, step: int) -> str:
        """The checkpoint of this job after a step, empty where there is none: of this line, or where the line began."""
        begun = self.assignment.resume_checkpoint
        first = int(begun.rpartition("/")[2]) if begun else 0
        if step <= first:
            return begun if step == first else ""
        own = checkpoint_name(self.assignment.job.removeprefix("jobs/"), self.assignment.line, step)
        return own if self._training.checkpoint_due(step) else ""

    def _beat(self, now: float) -> None:
        if now - self._beat_at >= min(1.0, self._settings.silence / 4):
            self._beat_at = now
            for place in self._places.values():
                place.process.send(RankMessage(heartbeat=Heartbeat()))

    def _watch(self, now: float) -> None:
        """End the attempt when a rank ended; ask all for flight records when one is silent, or when none computes."""
        places = list(self._places.values())
        if self._stopping and places and all_ended(places):
            # One rank leaves at its boundary, another loses contact in the step after: both were asked to.
            return self.end()
        if (loss := first_loss(places, now=now, settle=self._settings.settle)) is not None:
            return self.lose(
                loss.ranks,
                loss.cause,
                final=loss.final,
                stop=loss.stop,
                audit=loss.audit,
                consequence=loss.consequence,
            )
        if self._verdict_at is not None and now < self._verdict_at:
            return None
        settings = self._settings
        silent = tuple(place.rank for place in places if self._is_silent(place, now))
        ready = [place for place in self._places.values() if place.met and not place.finished]
        loaded = any(place.kernel for place in self._places.values())
        patience = (
            settings.stall if loaded else max(settings.stall, settings.meeting + self._doubling.limit(settings.start))
        )
        stalled = bool(ready) and now - self._worked_at > patience
        if places and not silent:
            self._doubling.well(now)
        if silent or stalled:
            # A part of a gang sees only the others wait; it decides if the scheduler did not.
            self._decides = len(self.assignment.ranks) == self._size or self._verdict_at is not None
            self._suspects, self._silent = True, silent
            self._dump(settings.dump)
        self._verdict_at = None
        return None

    def _is_silent(self, place: Place, now: float) -> bool:
        limit = self._settings.silence / 2 if place.met else self._settings.start
        return not place.process.ended and now - place.heard > self._doubling.limit(limit)

    def _dump(self, seconds: float) -> None:
        """Ask the ranks for flight records, and wait for so long."""
        self.phase, self._deadline = Phase.AUTOPSY, self._clock.monotonic() + seconds
        for place in self._places.values():
            place.record = None
            place.process.send(RankMessage(dump=Dump()))

    def _examine(self, now: float) -> None:
        """Wait for flight records, then name the guilty, or have the scheduler do so; only then end anybody."""
        missing = [place for place in self._places.values() if place.record is None and not place.process.ended]
        if missing and now < self._deadline:
            return
        self.phase = Phase.RUNNING
        records = {place.rank: place.record for place in self._places.values() if place.record is not None}
        if self._silent and not set(self._silent) - set(records):
            self._suspects = False  # they were late, not dead
        waiting = [record.phase == WAITING_FOR_WEIGHTS for record in records.values()]
        stores = any(record.phase == WAITING_FOR_BUFFER for record in records.values())
        if self._suspects and not self._silent and (stores or all(waiting)):
            self._suspects, self._worked_at = False, now
        if not (self._suspects or self._inquiry):
            return
        standings = [self._standing(place, now) for place in self._places.values()]
        groups = autopsy.groups_of(records.values(), self._size)
        if not self._suspects:
            self._tell_stall(standings, groups, seconds=0.0)
            return
        silent = [each.rank for each in standings if each.silent]
        if silent:
            self._doubling.missed(now)
        since = min((self._places[rank].heard for rank in silent), default=self._worked_at)
        for rank, record in records.items():
            log.warning("flight record of rank %d:\n%s\n%s", rank, record.stacks, record.collectives)
        if self._decides:
            self._decide(standings, groups, seconds=now - since)
        else:
            self._tell_stall(standings, groups, seconds=now - since)
            self._verdict_at = now + self._settings.verdict

    def _standing(self, place: Place, now: float) -> Standing:
        idle = now - place.worked_at
        if place.record is None and not (self._suspects or self._is_silent(place, now)):
            return autopsy.unclear(place.rank, crossed=place.step, idle=idle, finished=place.finished)
        if place.record is None and place.process.ended:
            return autopsy.unclear(place.rank, crossed=place.step, idle=idle, finished=True)
        return autopsy.standing_of(place.rank, place.record, crossed=place.step, idle=idle)

    def _decide(self, standings: list[Standing], groups: autopsy.Groups, *, seconds: float) -> None:
        """Name the guilty by the ranks of this node alone."""
        whole = len(self.assignment.ranks) == self._size
        own = dict.fromkeys(self.assignment.ranks, "" if whole else self._settings.name)
        others = dict.fromkeys(set(range(self._size)) - own.keys(), "another node")
        finding = examine(Gang({**own, **others}, groups), standings, seconds=seconds)
        if finding.excused:
            self._worked_at = self._clock.monotonic()
            return
        guilty = tuple(rank for rank in finding.guilty if rank in own)
        self.lose(guilty or (min(own),), finding.cause, consequence=not guilty)

    def _tell_stall(self, standings: list[Standing], groups: autopsy.Groups, *, seconds: float) -> None:
        self._report(
            ReportStallRequest(
                job=self.assignment.job,
                epoch=self.assignment.epoch,
                node=self._settings.name,
                inquiry=self._inquiry,
                seconds=seconds,
                ranks=[autopsy.to_wire(each) for each in standings],
                groups=autopsy.groups_to_wire(groups),
            )
        )
        self._inquiry = 0

    def _tell_progress(self, now: float, *, final: bool) -> None:
        """Report the newest step that all ranks here have crossed, if that is due."""
        if not self._actors or not self._places:
            return
        step = min(self._places[rank].step for rank in self._actors)
        if (report := self._crossings.report(step, now, final=final)) is not None:
            self._report(report)

    def _tell(
        self,
        rank: int,
        event: "RankEvent.ValueType",
        *,
        address: str = "",
        cause: str = "",
        final: bool = False,
        stop: PolicyStop | None = None,
        audit: AuditFailure | None = None,
        consequence: bool = False,
    ) -> None:
        place = self._places.get(rank)
        self._report(
            ReportRankRequest(
                job=self.assignment.job,
                epoch=self.assignment.epoch,
                node=self._settings.name,
                rank=rank,
                event=event,
                address=address,
                cause=cause[:4000],
                final=final,
                stop=stop,
                audit=audit,
                consequence=consequence,
                step=place.step if place else 0,
            )
        )

    def _kill(self) -> None:
        self.phase = Phase.ENDING
        self._wanted.clear()
        for place in self._places.values():
            place.process.kill()


@dataclass(frozen=True)
class _Start:
    """The checkpoint that an attempt has staged; empty for none."""

    manifest_key: str = ""
    state_digest: str = ""


def _models(training: Training) -> list[StagedModel]:
    """Return the checkpoints that the program reads. Raises CheckpointError."""
    return [
        StagedModel(role=each.role, manifest_key=manifest_of(each.checkpoint), state_digest=each.state_digest)
        for each in training.models
    ]


def _start_from(assignment: Assignment, training: Training) -> _Start:
    """The resume point, or else the checkpoint whose parameters the training begins with. Raises CheckpointError."""
    if assignment.resume_manifest_key:
        return _Start(assignment.resume_manifest_key, assignment.resume_digest)
    if training.initial is not None:
        return _Start(manifest_of(training.initial.checkpoint), training.initial.state_digest)
    return _Start()
