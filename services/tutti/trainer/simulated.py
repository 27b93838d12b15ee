"""Ranks for a simulation: no process, no thread, no float arithmetic.

A simulated rank reads the real data and writes real snapshots of the real layout, but its step is integer arithmetic
that does not know the topology. The agent is the real code.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tutti.backbone import Clock
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.staged import open_staged
from tutti.checkpoints.writer import plan_of
from tutti.contracts.scheduler.v1 import AuditFailure, Disagreement
from tutti.contracts.trainer.v1 import (
    OUTCOME_COMMITTED,
    Failed,
    Finished,
    FlightRecord,
    Heartbeat,
    Listening,
    Progress,
    RankMessage,
    Ready,
    Snapshot,
    Start,
)
from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.skips import until
from tutti.model.audit import Audit, check_audits, ring_audit
from tutti.model.chunks import Kind
from tutti.model.nonfinite import NONE, Examined, Witnessed, judge
from tutti.model.pace import Pace
from tutti.model.plan import Plan
from tutti.model.programs.dpo import DpoParameters
from tutti.model.programs.reward import RewardParameters
from tutti.model.programs.sft import SftParameters
from tutti.model.results import AuditFailed, Finding, Outcome, Scalars
from tutti.model.shapes import to_shape
from tutti.model.training import Training
from tutti.platform.processes import ProcessId
from tutti.trainer.autopsy import GROUPS
from tutti.trainer.batches.comparisons import Comparisons
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.batches.demonstrations import Demonstrations
from tutti.trainer.batches.ledgers import ledger_of
from tutti.trainer.batches.staged import Staged
from tutti.trainer.failures import Reason
from tutti.trainer.io.buffers import SharedBuffer
from tutti.trainer.lifeline import Exit
from tutti.trainer.rank.initial import initial_parameters
from tutti.trainer.rank.paces import to_wire

MODULUS = 8_388_593
"""A prime below 2^23: every value of the state is an integer that float32 holds exactly."""
LEAF_SECONDS = 0.1
KERNEL = '{"device":"simulated"}'

State = dict[tuple[int, Kind], int]


@dataclass(frozen=True)
class Plant:
    """From which step on a rank computes every gradient wrong; `not_finite`: what it computes is not finite; `held`:
    because the parameters that it holds are changed.
    """

    begun: int
    not_finite: bool = False
    held: bool = False


Faulty = Callable[[Start], "Plant | None"]
"""The fault that is planted in a rank; None for a sound one."""


def initial_state(training: Training, chunks: int) -> State:
    """The state at step 0: for every chunk and kind, the one integer that fills it."""
    seed = training.step.seed
    return {
        (chunk, kind): (seed + 1 + chunk) if kind is Kind.PARAMETER else 0 for chunk in range(chunks) for kind in Kind
    }


def next_state(state: State, step: int, gradient: int) -> State:
    """One step from the sum over all leaves; a sum of integers has no order."""
    found = {}
    for (chunk, kind), value in state.items():
        factor = {Kind.PARAMETER: 31, Kind.FIRST_MOMENT: 37, Kind.SECOND_MOMENT: 41}[kind]
        found[chunk, kind] = (value * factor + gradient * (chunk + 1) + step) % MODULUS
    return found


@dataclass
class Gangs:
    """The ranks of each attempt, in place of real collectives. Shared by all launchers of a simulation."""

    ranks: dict[tuple[str, int], dict[int, "SimulatedRank"]] = field(default_factory=dict)

    def join(self, rank: "SimulatedRank", start: Start) -> None:
        self.ranks.setdefault((start.job, start.epoch), {})[start.rank] = rank

    def of(self, start: Start) -> dict[int, "SimulatedRank"]:
        return self.ranks[start.job, start.epoch]


class SimulatedRank:
    """One rank; every `receive` of its agent lets it do one thing."""

    def __init__(self, gangs: Gangs, clock: Clock, faulty: Faulty = lambda start: None) -> None:
        self.process: ProcessId | None = None
        self._faulty = faulty
        self.plant: Plant | None = None
        self.exit_code: int | None = None
        self.server_exit_code: int | None = None
        self.step = 0
        self.frozen = False
        """Set by a simulation: the process is stopped and neither answers nor ends."""
        self.held, self.works = False, False
        """Set by a simulation: the main thread crosses no step, and whether it computes meanwhile."""
        self.slow = 0.0
        """Set by a simulation: seconds that it takes longer for a leaf than the others."""
        self.waits_for: int | None = None
        """Set by a simulation: the rank that it waits for in a point-to-point operation."""
        self.finished = False
        self._gangs, self._clock = gangs, clock
        self._heard = clock.monotonic()
        self._inbox: deque[RankMessage] = deque()
        self._out: list[RankMessage] = []
        self._free: deque[int] = deque()
        self._rendezvous = ""
        self._life: Iterator[None] | None = None
        self._start: Start | None = None
        self._silence = float("inf")
        self._stop, self._work = False, 0

    @property
    def number(self) -> int:
        """Its rank in the gang; -1 before it has started."""
        return self._start.rank if self._start is not None else -1

    @property
    def ended(self) -> bool:
        return self.exit_code is not None and not self._out

    @property
    def gone(self) -> bool:
        return self.exit_code is not None

    def send(self, message: RankMessage) -> None:
        if not self.gone:
            self._inbox.append(message)

    def kill(self) -> None:
        if not self.gone:
            self.exit_code = -9
            self._out.clear()

    def close(self) -> None:
        self._out.clear()

    def receive(self) -> list[RankMessage]:
        if not self.gone and not self.frozen:
            self._act()
        found, self._out = self._out, []
        return found

    def _act(self) -> None:
        while self._inbox:
            self._heard = self._clock.monotonic()
            self._take(self._inbox.popleft())
        if self._clock.monotonic() - self._heard > self._silence:
            self.exit_code = Exit.ALONE
        elif self._stop:
            self.exit_code = Exit.STOPPED
        elif self._life is not None:
            self._work += self.works or not (self.held or self._waits)
            self._out.append(RankMessage(heartbeat=Heartbeat(work=self._work)))
            if not self.held:
                next(self._life, None)

    def _take(self, message: RankMessage) -> None:
        match message.WhichOneof("body"):
            case "start":
                self._silence = message.start.silence_seconds
                self._rendezvous = message.start.rendezvous
                self.plant = self._faulty(message.start)
                self._gangs.join(self, message.start)
                self._start, self._life = message.start, self._live(message.start)
            case "rendezvous":
                self._rendezvous = message.rendezvous.address
            case "buffer_free":
                self._free.append(message.buffer_free.buffer)
            case "stop":
                self._stop = True
            case "dump":
                self._out.append(RankMessage(flight_record=self._record()))

    @property
    def _waits(self) -> bool:
        """True while some rank has not come to the barrier in which this one is."""
        gang = self._gangs.of(self._start) if self._start is not None else {}
        return any(other.step < self.step for other in gang.values())

    def _record(self) -> FlightRecord:
        """The barrier before a step as the collective with its number, in which the rank waits for slower ones."""
        record = FlightRecord(step=self.step + 1, phase="simulated")
        if self._start is None:
            return record
        gang = sorted(self._gangs.of(self._start))
        entry = {"process_group": ["0", ""], "collective_seq_id": self.step + 1, "profiling_name": "simulated:barrier"}
        entries = [{**entry, "record_id": 0, "retired": self.held or not self._waits}]
        if self.waits_for is not None:
            receives = {"is_p2p": True, "p2p_seq_id": 1, "profiling_name": f"simulated:recv 0<-{self.waits_for}"}
            entries.append({**entry, **receives, "record_id": 1, "retired": False})
        record.collectives = json.dumps({"entries": entries, GROUPS: {"0": gang}})
        return record

    def _live(self, start: Start) -> Iterator[None]:
        training = Training.from_json(start.training)
        plan = plan_of(training, to_shape(start.shape))
        data = batches_of(Staged.of(start), training)
        yield from self._meet(start, len(plan.ranks))
        if self.gone:
            return
        state, scalars = initial_state(training, len(plan.layout.chunks)), Scalars()
        ledger = ledger_of(training, data.first_ledger())
        if start.resume:
            staged = open_staged(Path(start.resume))
            scalars, found = staged.state.scalars.model, staged.state.scalars.ledger
            ledger = ledger_of(training, data.first_ledger(), found, scalars.step)
            state = {(chunk, kind): int(staged.read(chunk, kind)[0]) for chunk, kind in state}
        elif (read := initial_parameters(start, plan.layout)) is not None:
            state |= {(at, kind): int(read(at, kind.value)[0]) for at, kind in state if kind is Kind.PARAMETER}
        self.step = scalars.step
        self._free.extend(range(len(start.buffers)))
        self._out.append(
            RankMessage(
                ready=Ready(
                    step=self.step,
                    kernel=KERNEL,
                    leaves=len(plan.leaves_of(start.rank)),
                    chunks=len(plan.chunks_of(start.rank)),
                )
            )
        )
        yield
        leaves = [len(plan.leaves_of(rank)) for rank in plan.ranks]
        pace = Pace(leaves)
        while self.step < training.steps:
            while not self._peers_at(start, self.step):
                if self.gone:
                    return
                yield
            step = self.step + 1
            if finding := self._audited(start, plan, training, step):
                self._fail_audit(step, finding)
                return
            wrong = sum(rank + 1 for rank in self._wrong(start, step, not_finite=False))
            gradient = (_gradient(data, ledger, step, training.step.leaves) + wrong) % MODULUS
            state, scalars = next_state(state, step, gradient), scalars.after(Outcome.COMMITTED)
            self.step = step
            progress, gang = _progress(training, step, gradient), self._gangs.of(start)
            busy = [count * (LEAF_SECONDS + gang[rank].slow) for rank, count in enumerate(leaves)]
            if start.rank == 0 and (slow := pace.add(step, busy)) is not None:
                progress.pace.CopyFrom(to_wire(slow))
            self._out.append(RankMessage(progress=progress))
            yield
            if training.checkpoint_due(step):
                while not self._free:
                    yield
                buffer = self._free.popleft()
                with SharedBuffer(Path(start.buffers[buffer]), plan.snapshot_size(start.rank)) as shared:
                    for entry in plan.snapshot_table(start.rank):
                        filled = np.full(entry.nbytes // 4, state[entry.chunk, entry.kind], "<f4")
                        shared.view[entry.offset : entry.offset + entry.nbytes] = filled.tobytes()
                position = step * training.step.leaves * training.step.rows
                self._out.append(
                    RankMessage(
                        snapshot=Snapshot(
                            step=step,
                            buffer=buffer,
                            scalars=StateScalars(scalars, position, until(ledger, step)).to_json(),
                            loss=_loss(gradient),
                        )
                    )
                )
                yield
        self.finished, self.exit_code = True, Exit.FINISHED
        self._out.append(RankMessage(finished=Finished(step=training.steps)))

    def _meet(self, start: Start, ranks: int) -> Iterator[None]:
        deadline = self._clock.monotonic() + start.rendezvous_seconds
        if start.rank == 0:
            self._rendezvous = f"127.0.0.1:{1 + start.epoch % 65535}"
            self._out.append(RankMessage(listening=Listening(address=self._rendezvous)))
            yield
        while not self._rendezvous or len(self._gangs.of(start)) < ranks:
            if self._clock.monotonic() > deadline:
                missing = [rank for rank in range(ranks) if rank not in self._gangs.of(start)]
                self._fail(Reason.RENDEZVOUS_TIMEOUT, f"ranks {missing} did not come to the rendezvous", missing)
                return
            yield

    def _peers_at(self, start: Start, step: int) -> bool:
        """True if all others have completed `step` too; a dead one is lost contact."""
        others = [other for rank, other in self._gangs.of(start).items() if rank != start.rank]
        if any(other.gone and not other.finished for other in others):
            self._fail(Reason.PEER_LOST, f"lost contact with the other ranks in step {step + 1}", ())
            return False
        return all(other.step >= step for other in others)

    def _wrong(self, start: Start, step: int, *, not_finite: bool) -> list[int]:
        """The ranks whose gradients are wrong in a step, or not finite."""
        plants = {rank: other.plant for rank, other in self._gangs.of(start).items() if other.plant is not None}
        return [rank for rank, each in plants.items() if step >= each.begun and each.not_finite == not_finite]

    def _audited(self, start: Start, plan: Plan, training: Training, step: int) -> Finding:
        """The verdict of a step, by the rules of real ranks; empty where nothing is examined or found."""
        if broken := self._wrong(start, step, not_finite=True):
            examined = [Examined(0 if rank in broken else NONE, 0, contradicts=False) for rank in plan.ranks]
            return judge(examined, [Witnessed(1, finite=True) for _ in plan.ranks])
        audit = ring_audit(plan, step, every=training.audit_every, last=training.steps, epoch=start.epoch)
        if audit is not None:
            try:
                check_audits(plan, audit, step, [self._shared(start, plan, audit, rank, step) for rank in plan.ranks])
            except AuditFailed as failed:
                return failed.finding
        return Finding()

    def _shared(self, start: Start, plan: Plan, audit: Audit, rank: int, step: int) -> list[int]:
        """The record that a rank shares at an audit, with numbers in place of digests; a plant adds one of its own."""
        plant = self._gangs.of(start)[rank].plant
        wrong = rank + 1 if rank in self._wrong(start, step, not_finite=False) else 0
        changed = wrong if plant is not None and plant.held else 0
        leaves = [leaf * MODULUS + wrong for leaf in (audit.owned(rank), audit.witnessed(rank))]
        held = [chunk.index * MODULUS + changed for chunk in plan.layout.chunks]
        return [*leaves, *held, *(chunk.index * MODULUS for chunk in plan.chunks_of(rank))]

    def _fail_audit(self, step: int, finding: Finding) -> None:
        self._fail(Reason.AUDIT_FAILED, f"step {step}: ranks {finding.ranks} differ", finding.ranks)
        failed = self._out[-1].failed
        failed.audit.CopyFrom(AuditFailure(step=step, convicted=finding.convicted))
        failed.audit.disagreements.extend(Disagreement(rank=a, witness=b) for a, b in finding.disagreements)

    def _fail(self, reason: Reason, message: str, ranks: Sequence[int]) -> None:
        self.exit_code = Exit.FAILED
        self._out.append(RankMessage(failed=Failed(reason=reason, message=message, step=self.step, ranks=ranks)))


def batches_of(staged: Staged, training: Training) -> "TrainingData | Demonstrations | Comparisons":
    """Return what the ranks of a program read, without what they compute with. Raises RankFailure, CorpusError."""
    match training.program_parameters:
        case SftParameters(held_out):
            return Demonstrations(staged, training, held_out=held_out)
        case RewardParameters(held_out) | DpoParameters(held_out):
            return Comparisons(staged, training, held_out=held_out, room=training.length)
        case _:
            return TrainingData(staged.datasets, training)


def _gradient(data: "TrainingData | Demonstrations | Comparisons", ledger: Ledger, step: int, leaves: int) -> int:
    return sum(int(leaf.tokens.sum(dtype=np.int64)) for leaf in data.leaves(ledger, step, range(leaves)).values())


def _loss(gradient: int) -> float:
    return gradient / MODULUS


def _progress(training: Training, step: int, gradient: int) -> Progress:
    progress = Progress(
        step=step,
        outcome=OUTCOME_COMMITTED,
        loss=_loss(gradient),
        gradient_norm=1.0,
        tokens=training.step.leaves * training.step.rows * training.length,
        seconds=1.0,
    )
    if training.validation_due(step):
        progress.bits_per_byte = 1.0 + _loss(gradient)
    return progress


class SimulatedLauncher:
    """Launches simulated ranks. `close` is the end of their agent: they end with it."""

    def __init__(self, gangs: Gangs, clock: Clock, faulty: Faulty = lambda start: None) -> None:
        self.ranks: list[SimulatedRank] = []
        self._gangs, self._clock, self._faulty = gangs, clock, faulty

    def launch(self, device: str) -> SimulatedRank:
        rank = SimulatedRank(self._gangs, self._clock, self._faulty)
        self.ranks.append(rank)
        return rank

    def poll(self) -> None:
        self.ranks = [rank for rank in self.ranks if not rank.gone]

    def processes(self) -> Sequence[ProcessId]:
        return []

    def filenos(self) -> Sequence[int]:
        return []

    def close(self) -> None:
        for rank in self.ranks:
            rank.kill()
