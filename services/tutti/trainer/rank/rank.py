"""A rank: one process that computes leaves and keeps chunks of one attempt.

It talks to its agent over one socket and to other ranks by collectives, and to nobody else. It ends in one of four
ways: finished, stopped at a step boundary, failed with a reason that was told, or alone because its agent is gone.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store
from torch.distributed import distributed_c10d

from tutti.chassis.config import memory
from tutti.checkpoints.staged import open_staged
from tutti.contracts.scheduler.v1 import AuditFailure, Disagreement, PolicyStop, Spike
from tutti.contracts.trainer.v1 import Failed, Listening, RankMessage, Ready, Start
from tutti.model.chunks import Layout
from tutti.model.device import DeviceMissing, select
from tutti.model.exchange import Exchange
from tutti.model.plan import Plan
from tutti.model.results import AuditFailed, SetupMismatch, StepAborted, StepMismatch
from tutti.model.shapes import to_shape
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.errors import CorpusError
from tutti.trainer.autopsy import GROUPS, MEETING
from tutti.trainer.batches.ledgers import ledger_of
from tutti.trainer.batches.staged import Staged
from tutti.trainer.failures import RankFailure, Reason
from tutti.trainer.framing import BlockingChannel
from tutti.trainer.io.buffers import SharedBuffer
from tutti.trainer.lifeline import Exit, Lifeline, Stopped, first_message
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.policies.rolloutgroup import Split
from tutti.trainer.policies.rolloutworker import Worker
from tutti.trainer.programs import PROGRAMS
from tutti.trainer.rank.contact import lost_contact
from tutti.trainer.rank.initial import initial_parameters
from tutti.trainer.rank.loop import Loop
from tutti.trainer.rank.rendezvous import group_of_first, join_store, meet, open_group, open_store

START_SECONDS = 60.0


def preload() -> None:
    """Touch what every rank needs, so that it is imported once, before the forks."""
    torch.set_num_threads(1)
    assert dist.is_available()


def main(sock: socket.socket) -> int:
    """Run one rank over this socket; its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    channel = BlockingChannel(sock, RankMessage)
    start = first_message(channel, START_SECONDS)
    if start is None:
        return Exit.ALONE
    lifeline = Lifeline(channel, silence=start.silence_seconds, collectives=_collectives)
    try:
        _run(start, lifeline)
    except Stopped:
        return Exit.STOPPED
    except BaseException as error:
        failed = failed_of(error, rank=start.rank, step=lifeline.step, phase=lifeline.phase)
        if failed.reason == Reason.RANK_ERROR:
            traceback.print_exc()
        with contextlib.suppress(OSError):
            lifeline.send(RankMessage(failed=failed))
        return Exit.FAILED
    return Exit.FINISHED


def _run(start: Start, lifeline: Lifeline) -> None:
    training = Training.from_json(start.training)
    shape = to_shape(start.shape)
    plan = Plan(Layout(training.model), shape, training.step.leaves)
    program = PROGRAMS[training.program]
    data = program.read(Staged.of(start), training)
    own = min(start.rank, shape.ranks - 1)  # a rollout worker has no buffers
    buffers = [SharedBuffer(Path(path), plan.snapshot_size(own)) for path in start.buffers]

    device = _device(start)
    world, store = _meet(start, shape.ranks + start.rollouts, lifeline)
    group = world
    if start.rollouts:
        if not isinstance(data, PolicyData):
            raise SpecError(f"{training.program} generates no rollouts; expected no rollout workers")
        group = group_of_first(shape.ranks)
        everybody = Exchange(world, rank=start.rank, ranks=shape.ranks + start.rollouts)
        if start.rank >= shape.ranks:
            Worker(training, data, everybody, actors=shape.ranks, device=device).run(start, lifeline)
            return
        data.split(Split(everybody, plan.layout, actors=shape.ranks, device=device))
    lifeline.phase = "preparing the step"
    step = RankStep(
        training.model,
        training.optimizer,
        training.step,
        plan,
        rank=start.rank,
        epoch=start.epoch,
        group=group,
        device=device,
        audit_every=training.audit_every,
        objective=program.objective(training),
        spikes=training.spikes,
    )
    lifeline.work = lambda: step.work
    lifeline.phase = "loading the state"
    if start.resume:
        staged = open_staged(Path(start.resume))
        scalars = staged.state.scalars
        step.load(staged.read, scalars.model)
        ledger = ledger_of(training, data.first_ledger(), scalars.ledger, scalars.step)
    else:
        step.initialize(initial_parameters(start, plan.layout, training.conversion))
        ledger = ledger_of(training, data.first_ledger())
    lifeline.send(
        RankMessage(
            ready=Ready(
                step=step.scalars().step,
                kernel=json.dumps(step.kernel.to_dict(), sort_keys=True, separators=(",", ":")),
                leaves=len(plan.leaves_of(start.rank)),
                chunks=len(plan.chunks_of(start.rank)),
                note=data.note,
            )
        )
    )
    Loop(program, training, step, data, ledger, buffers, lifeline).run()
    del store


def _device(start: Start) -> str:
    """Raises RankFailure when this machine does not have it."""
    device = start.device or "cpu"
    try:
        select(device)
    except DeviceMissing as missing:
        words = f"{missing}; start the agent with the devices it has"
        raise RankFailure(Reason.DEVICE_MISSING, words, ranks=[start.rank]) from missing
    return device


def _meet(start: Start, ranks: int, lifeline: Lifeline) -> tuple[dist.ProcessGroup | None, Store]:
    """The group of all ranks (none for a single one), and the store that keeps it alive."""
    lifeline.phase = MEETING
    seconds = start.rendezvous_seconds
    if start.rank == 0:
        store, address = open_store(start.listen, seconds)
        lifeline.send(RankMessage(listening=Listening(address=address)))
    else:
        found = start.rendezvous or lifeline.rendezvous(seconds)
        if not found:
            raise RankFailure(
                Reason.RENDEZVOUS_TIMEOUT,
                f"rank 0 of {ranks} has not opened the rendezvous of epoch {start.epoch} within {seconds:g} s",
                ranks=[0],
            )
        store = join_store(found, seconds)
    own = meet(store, rank=start.rank, ranks=ranks, epoch=start.epoch, seconds=seconds, check=lifeline.check_stop)
    if ranks == 1:
        return None, store
    listen = start.listen or "127.0.0.1"
    return open_group(own, rank=start.rank, ranks=ranks, listen=listen, device=start.device), store


def failed_of(error: BaseException, *, rank: int, step: int, phase: str) -> Failed:
    """Return the message of a rank that ends with this error in a step."""
    ranks: tuple[int, ...] = (rank,)
    stop: PolicyStop | None = None
    audit: AuditFailure | None = None
    spike: Spike | None = None
    match error:
        case RankFailure():
            reason, ranks, stop, spike = error.reason, error.ranks, error.stop, error.spike
        case AuditFailed():
            reason, ranks, audit = Reason.AUDIT_FAILED, error.finding.ranks, _audit(error)
        case SetupMismatch():
            reason = Reason.SETUP_MISMATCH
        case StepMismatch() | StepAborted():
            reason = Reason.STEP_MISMATCH
        case SpecError():
            reason = Reason.SETUP_MISMATCH
        case CorpusError():
            reason = Reason.STATE_REFUSED if phase == "loading the state" else Reason.DATA_REFUSED
        case torch.OutOfMemoryError():
            reason = Reason.OUT_OF_MEMORY
        case _ if memory.ran_out(error):
            reason = Reason.OUT_OF_MEMORY
        case _ if lost_contact(error):
            reason, ranks = Reason.PEER_LOST, ()
        case _:
            reason = Reason.RANK_ERROR
    words = str(error) or type(error).__name__
    if reason is Reason.PEER_LOST:
        words = f"lost contact with the other ranks in step {step}, {phase}: {words.splitlines()[0]}"
    elif reason is Reason.RANK_ERROR:
        words = f"{type(error).__name__}: {words}"
    elif reason is Reason.OUT_OF_MEMORY:
        words = f"{words}; {memory.TOO_LITTLE}, or fewer rows in a microbatch"
    return Failed(
        reason=reason,
        message=words[:4000],
        step=max(0, step - 1),
        ranks=ranks,
        stop=stop,
        audit=audit,
        spike=spike,
    )


def _audit(error: AuditFailed) -> AuditFailure:
    pairs = [Disagreement(rank=rank, witness=witness) for rank, witness in error.finding.disagreements]
    return AuditFailure(step=error.step, convicted=error.finding.convicted, disagreements=pairs)


def _collectives() -> str:
    """The back end's record of its collectives, with the members of the groups; works while one of them hangs."""
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    if dump is None:
        return ""
    record, world = json.loads(dump(True, False)), distributed_c10d._world
    # The record of gloo names neither the groups nor their members rightly.
    ranks = {str(name): world.pg_group_ranks[group] for group, name in world.pg_names.items()}
    record[GROUPS] = {name: sorted(own, key=own.__getitem__) for name, own in ranks.items()}
    return json.dumps(record)


if __name__ == "__main__":
    code = main(socket.socket(fileno=int(sys.argv[1])))
    sys.stderr.flush()
    os._exit(code)
