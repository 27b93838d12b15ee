"""The agent: makes a node do what its resource says, and tells the control plane what happened.

It is level-triggered: whatever was missed, the newest node resource says what should run. Not to reach the control
plane stops nothing; reports wait. It never waits itself: everything slow is behind its ports.
"""

import logging
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import Any

from google.protobuf.message import Message

from tutti.backbone.clock import Clock
from tutti.chassis.errors import (
    NotFound,
    PermissionDenied,
    Problem,
    Refused,
    StaleEpoch,
    Unauthenticated,
    is_transient,
)
from tutti.chassis.telemetry import span_before
from tutti.contracts.committer.v1 import (
    ClaimVerificationRequest,
    ClaimVerificationResponse,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_LOST,
    Assignment,
    HeartbeatRequest,
    HeartbeatResponse,
    Node,
    RegisterNodeRequest,
    ReportRankRequest,
    ReportReleasedRequest,
    ReportStallRequest,
    ReportStallResponse,
)
from tutti.contracts.trainer.v1 import (
    ExperienceName,
    IoMessage,
    Release,
    Stored,
    VerifyRequest,
)
from tutti.platform.heartbeattimeout import Doubling
from tutti.trainer.agent import measures, reporting
from tutti.trainer.agent.attempt import Attempt, Phase
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.ports import (
    AgentSettings,
    BackgroundCalls,
    CommitterApi,
    IoLink,
    Launcher,
    SamplingApi,
    SchedulerApi,
)
from tutti.trainer.agent.reporting import Reporting

log = logging.getLogger(__name__)


class AgentState(Enum):
    """The state of the agent as a whole."""

    REGISTERING = "registering"
    SERVING = "serving"
    DRAINING = "draining"
    SUPERSEDED = "superseded"
    """another incarnation speaks for this node: nothing may run here any more"""
    DONE = "done"


class Agent:
    """Call `step` again and again; it returns whether it did anything."""

    def __init__(
        self,
        settings: AgentSettings,
        *,
        incarnation: str,
        scheduler: SchedulerApi,
        committer: CommitterApi,
        sampling: SamplingApi,
        background: BackgroundCalls,
        clock: Clock,
        launcher: Launcher,
        io: IoLink,
        journal: Journal,
        watch: Callable[[], Node | None] | None = None,
    ) -> None:
        """`watch` gives the newest node resource that was pushed, if any; without it the node is polled."""
        self.settings, self.incarnation, self.state = settings, incarnation, AgentState.REGISTERING
        self.superseded = False
        self.refused = ""  # why the scheduler does not take this agent
        self._scheduler, self._committer = scheduler, committer
        self._background, self._clock = background, clock
        self._launcher, self._io, self._journal, self._watch = launcher, io, journal, watch
        self._restarts_seen = io.restarts
        self._ids = count(1)
        self._node = Node()
        self._attempts: dict[tuple[str, int], Attempt] = {}
        self._doubling = Doubling()
        self._handing_over: list[Attempt] = []
        self._traces: dict[tuple[str, int], str] = {}
        self._told_lost: set[tuple[str, int]] = set()
        self._released: set[tuple[str, int]] = set()
        self._fresh = False
        self._next_register = self._next_poll = self._next_beat = self._next_claim = 0.0
        self._drain_until = 0.0
        self._reports = Reporting(
            settings.name,
            background,
            clock,
            scheduler=scheduler,
            committer=committer,
            sampling=sampling,
            trace=lambda job, epoch: self._traces.get((job, epoch), ""),
            answered=self._answered,
            refused=self._refused,
            experience_told=self._experience_told,
        )

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(self._attempts.values())

    def step(self) -> bool:
        """Do what can be done now."""
        did = self._background.deliver()
        self._launcher.poll()
        did |= self._hear_io()
        for attempt in list(self._attempts.values()):
            did |= attempt.step()
        if self.state is AgentState.REGISTERING:
            self._register()
        elif self.state is AgentState.SERVING:
            self._look()
            self._heartbeat()
            self._claim()
            did |= self._reconcile()
        did |= self._settle()
        self._journal.processes(self._all_processes())
        did |= self._reports.step()
        return did

    def drain(self) -> None:
        """End all ranks at a step boundary, release what ran, then be DONE."""
        if self.state in (AgentState.REGISTERING, AgentState.SERVING):
            if self.state is AgentState.SERVING:
                self._tell_leaving()
            self.state, self._drain_until = AgentState.DRAINING, self._clock.monotonic() + self.settings.drain
            for attempt in self._attempts.values():
                attempt.stop_gently()

    def _tell_leaving(self) -> None:
        """Before what then happens to its ranks, so that no attempt is spent on it and nothing is placed here."""
        self._reports.scheduler.add(
            HeartbeatRequest(name=self.settings.name, incarnation=self.incarnation, leaving=True)
        )

    def close(self) -> None:
        """End every process now."""
        for attempt in self._attempts.values():
            attempt.end()
        self._launcher.close()
        self._io.close()
        self._background.close()

    def _register(self) -> None:
        now = self._clock.monotonic()
        if self._background.busy("node") or now < self._next_register:
            return
        self._next_register = now + self.settings.poll
        settings = self.settings
        request = RegisterNodeRequest(
            name=settings.name,
            incarnation=self.incarnation,
            slots=settings.slots,
            devices=settings.devices,
            address=settings.address,
            kernel=settings.kernel,
            machine=settings.machine,
            memory_bytes=settings.memory_bytes,
            folder=settings.folder,
        )
        self._background.send("node", lambda: self._scheduler.RegisterNode(request), self._registered)

    def _registered(self, answer: Node | Exception) -> None:
        if isinstance(answer, Node):
            if self.state is AgentState.REGISTERING:
                self.state, self._node = AgentState.SERVING, Node()
            elif self.state is AgentState.DRAINING:  # asked to stop while this was on its way
                self._tell_leaving()
            self._see(answer)
        elif isinstance(answer, Refused | PermissionDenied | Unauthenticated):
            log.error("%s; this agent stops", answer)
            self.refused, self.state = str(answer), AgentState.SUPERSEDED
        elif not is_transient(answer):
            log.error("%s cannot be registered: %s", self.settings.name, answer)

    def _look(self) -> None:
        """Learn the newest node resource."""
        if self._watch is not None and (node := self._watch()) is not None:
            self._see(node)
        now = self._clock.monotonic()
        if now >= self._next_poll and not self._background.busy("node"):
            self._next_poll = now + (self.settings.poll if self._watch is None else self.settings.relook)
            request = GetRequest(name=self.settings.name)
            self._background.send("node", lambda: self._scheduler.GetNode(request), self._seen)

    def _seen(self, answer: Node | Exception) -> None:
        if isinstance(answer, Node):
            self._see(answer)
        elif isinstance(answer, NotFound) and self.state is AgentState.SERVING:
            self.state = AgentState.REGISTERING

    def _see(self, node: Node) -> None:
        if node.incarnation and node.incarnation != self.incarnation:
            if self.state is AgentState.SERVING and node.revision > self._node.revision:
                self._supersede()
            return
        if node.revision > self._node.revision:
            self._node, self._fresh = node, True

    def _supersede(self) -> None:
        log.error(
            "another agent speaks for %s: this one ends its ranks and stops; give each agent its own --node",
            self.settings.name,
        )
        self.superseded = True
        self.state = AgentState.SUPERSEDED
        for attempt in self._attempts.values():
            attempt.end()

    def _heartbeat(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_beat or self._background.busy("heartbeat"):
            return
        self._next_beat = now + self.settings.heartbeat
        request = HeartbeatRequest(name=self.settings.name, incarnation=self.incarnation)
        self._background.send("heartbeat", lambda: self._scheduler.Heartbeat(request), self._beaten)

    def _beaten(self, answer: HeartbeatResponse | Exception) -> None:
        if self.state is not AgentState.SERVING:
            return
        if isinstance(answer, NotFound):
            self.state = AgentState.REGISTERING
        elif isinstance(answer, StaleEpoch):
            self._supersede()
        elif isinstance(answer, HeartbeatResponse) and answer.revision > self._node.revision:
            self._next_poll = 0.0

    def _claim(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_claim or self._background.busy("claim"):
            return
        self._next_claim = now + self.settings.claim
        request = ClaimVerificationRequest(node=self.settings.name, process=self._process_name)
        self._background.send("claim", lambda: self._committer.ClaimVerification(request), self._claimed)

    @property
    def _process_name(self) -> str:
        return f"{self.settings.name}/{self.incarnation}/io"

    def _claimed(self, answer: ClaimVerificationResponse | Exception) -> None:
        if isinstance(answer, ClaimVerificationResponse) and answer.verification:
            self._next_claim = 0.0
            self._io.send(
                IoMessage(
                    verify=VerifyRequest(
                        verification=answer.verification,
                        claim=answer.claim,
                        report_key=answer.report_key,
                        report_digest=answer.report_digest,
                        training=answer.training,
                    )
                )
            )

    def _reconcile(self) -> bool:
        """Make the attempts those of the node resource."""
        if not self._fresh:
            return False
        self._fresh = False
        wanted = {(each.job, each.epoch): each for each in self._node.assignments}
        told = {key: self._traces[key] for key in self._attempts if key in self._traces}
        self._traces = told | {key: each.traceparent for key, each in wanted.items()}
        newest: dict[str, int] = {}
        for job, epoch in wanted:
            newest[job] = max(epoch, newest.get(job, 0))
        for key, attempt in self._attempts.items():
            if key not in wanted or wanted[key].stop or key[1] < newest[key[0]]:
                attempt.end()
            else:
                attempt.rendezvous(wanted[key].rendezvous)
                attempt.inquired(wanted[key].stall_inquiry, settled=wanted[key].stall_settled)
        for key, assignment in wanted.items():
            if key in self._attempts or key in self._released:
                if key in self._released and assignment.stop:
                    self._tell_released(key)
                continue
            if assignment.stop or key[1] < newest[key[0]]:
                self._tell_released(key)
            else:
                self._begin(key, assignment)
        self._released &= set(wanted)
        self._told_lost &= set(wanted)
        return True

    def _begin(self, key: tuple[str, int], assignment: Assignment) -> None:
        if key in self._told_lost:
            return
        if any(job == key[0] for job, _ in self._attempts):
            # The lower epoch is not gone yet; its end makes the node fresh again.
            return
        if not self._journal.begin(*key):
            self._told_lost.add(key)
            for rank in assignment.ranks:
                self._reports.scheduler.add(
                    ReportRankRequest(
                        job=key[0],
                        epoch=key[1],
                        node=self.settings.name,
                        rank=rank,
                        event=RANK_EVENT_LOST,
                        cause=f"the agent of {self.settings.name} was restarted",
                    )
                )
            return
        log.info("%s, epoch %d: ranks %s start on this node", *key, list(assignment.ranks))
        attempt = Attempt(
            assignment,
            self.settings,
            self._clock,
            self._launcher,
            ask=self._io.send,
            report=self._reports.scheduler.add,
            next_id=lambda: next(self._ids),
            doubling=self._doubling,
        )
        self._attempts[key] = attempt
        attempt.rendezvous(assignment.rendezvous)

    def _settle(self) -> bool:
        """See to attempts that are gone, and to the end of the agent."""
        did = False
        wanted = {(each.job, each.epoch): each for each in self._node.assignments}
        newest = {job: max(epoch for each, epoch in wanted if each == job) for job, _ in wanted}
        for key, attempt in list(self._attempts.items()):
            if attempt.phase is not Phase.GONE:
                continue
            asked = key not in wanted or wanted[key].stop or key[1] < newest[key[0]]
            if asked or self.state in (AgentState.DRAINING, AgentState.SUPERSEDED):
                del self._attempts[key]
                self._handing_over.append(attempt)
                self._tell_released(key)
                self._fresh = did = True
        for attempt in [each for each in self._handing_over if each.handed_over]:
            self._handing_over.remove(attempt)
            self._io.send(IoMessage(release=Release(job=attempt.key[0], epoch=attempt.key[1])))
        if self.state is AgentState.SUPERSEDED and not self._attempts:
            self.state = AgentState.DONE
        elif self.state is AgentState.DRAINING:
            late = self._clock.monotonic() > self._drain_until
            for attempt in self._attempts.values():
                if attempt.all_finished or late or attempt.phase in (Phase.STAGING, Phase.BUFFERS):
                    attempt.end()
            told = not (self._reports.scheduler or self._handing_over)
            if not self._attempts and (told or late):
                self.state = AgentState.DONE
        return did

    def _tell_released(self, key: tuple[str, int]) -> None:
        self._released.add(key)
        self._reports.scheduler.add(
            ReportReleasedRequest(job=key[0], epoch=key[1], node=self.settings.name, incarnation=self.incarnation)
        )

    def _hear_io(self) -> bool:
        messages = self._io.receive()
        for message in messages:
            self._heard(message)
        if self._io.restarts != self._restarts_seen:
            self._restarts_seen = self._io.restarts
            for attempt in (*self._attempts.values(), *self._handing_over):
                attempt.ask_again()
                attempt.disturbed(f"{self._io.fate}: another took over")
        return bool(messages)

    def _heard(self, message: IoMessage) -> None:
        everyone = (*self._attempts.values(), *self._handing_over)
        match message.WhichOneof("body"):
            case "staged":
                any(attempt.staged(message.staged) for attempt in everyone)
            case "buffers_made":
                any(attempt.buffers_made(message.buffers_made) for attempt in everyone)
            case "spooled":
                any(attempt.spooled(message.spooled.buffer) for attempt in everyone)
            case "stored":
                measures.stored(message.stored)
                self._trace_write(message.stored)
                self._reports.committer.add(reporting.shard(message.stored, self.settings.name))
            case "lost":
                self._reports.committer.add(reporting.shard(message.lost, self.settings.name))
            case "experience_kept":
                any(attempt.experience_kept(message.experience_kept.digest) for attempt in everyone)
            case "experience_stored":
                self._reports.sampling.add(reporting.experience(message.experience_stored, self.settings.name))
            case "verified":
                self._reports.committer.add(
                    reporting.verification(message.verified, node=self.settings.name, process=self._process_name)
                )
            case "trouble":
                log.warning("I/O child: %s", message.trouble.message)

    def _trace_write(self, told: Stored) -> None:
        """The I/O child wrote it, and exports nothing."""
        trace = self._traces.get((told.job, told.epoch), "")
        if told.writing_seconds > 0:
            span_before(trace, f"put {told.report_key}", seconds=told.writing_seconds)

    def _experience_told(self, request: Any, answer: object) -> None:
        """Tell the I/O child that an experience was delivered. A refused one is not sent again: the reason is in the
        log.
        """
        name = ExperienceName(job=request.job, line=request.line, iteration=request.iteration, digest=request.digest)
        self._io.send(IoMessage(experience_told=name))

    def _answered(self, request: Message, answer: object) -> None:
        if isinstance(request, ReportStallRequest) and isinstance(answer, ReportStallResponse):
            attempt = self._attempts.get((request.job, request.epoch))
            if attempt is not None:
                attempt.joined(answer.inquiry)

    def _refused(self, request: Any, problem: Problem) -> None:
        """A stale epoch: what the node resource says by now is looked up at once."""
        self._next_poll = 0.0

    def _all_processes(self) -> list[Any]:
        ranks = [process.process for attempt in self._attempts.values() for process in attempt.processes]
        known = [process for process in ranks if process is not None]
        return [*known, *self._launcher.processes(), *self._io.processes()]
