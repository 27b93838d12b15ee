"""What a rank spends beside computing: agent, vote, telemetry, reports; and what it sends and holds to reduce.

Two real ranks run the product's loop over gloo, each with a lifeline to a real other end. A share of 1 % cannot be seen
by timing two runs, so the parts themselves are timed: what the loop does between steps, the vote from the arrival of
the last rank, and the lifeline's thread on a core. Aggregation, metrics and gRPC are the agent's, not the rank's.
The model is sized for a step of about 250 ms where nothing else runs; the share is of the steps as they were.
Reduction is measured beside gloo's reduce-scatter of the same vector, right after each step.
"""

import multiprocessing
import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks import data
from benchmarks.meters import Companion, MeteredLifeline, MeteredStep, seconds_on_a_core
from benchmarks.pairs import Pairs, bootstrap, median
from benchmarks.program import main, scratch
from benchmarks.table import Row, ratio_at_most
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.contracts.trainer.v1 import RankMessage
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.trainer.batches.data import TrainingData
from tutti.trainer.framing import BlockingChannel
from tutti.trainer.io.buffers import BufferPool, SharedBuffer
from tutti.trainer.programs.pretrain import PROGRAM
from tutti.trainer.rank.loop import Loop

RANKS = 2
STEP_SECONDS = 0.25
SHARE = 0.01
WARMUPS = 5
ANSWER_SECONDS = 600.0
NEVER = 1_000_000_000


@dataclass(frozen=True)
class Task:
    """What a rank process is given."""

    rank: int
    meeting: str
    dataset: Path
    buffers: Path
    training: Training


@dataclass(frozen=True)
class Told:
    """What one rank measured, a value a step."""

    steps: list[float]
    talk: list[float]
    votes: list[tuple[float, float]]
    lifeline_seconds: float
    reduce: list[float]
    reduce_scatter: list[float]
    sent_bytes: int
    peak_gradient_bytes: int
    gradient_bytes: int


def measure(quick: bool) -> list[Row]:
    """What a rank spends beside its step, and its reduction beside reduce-scatter."""
    steps = WARMUPS + (25 if quick else 120)
    model = ModelSpec(vocabulary=4096, width=128, layers=4, heads=4, kv_heads=4, hidden=320, context=256, tied=True)
    with scratch("rank") as name:
        folder = Path(name)
        blobs = EmbeddedBlobs(folder / "blobs")
        made = data.make(blobs, vocabulary=model.vocabulary, context=model.context, sequences=4096)
        training = Training(
            model=model,
            optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps, warmup_steps=5),
            step=StepSpec(leaves=8, rows=2),
            dataset=made.digest,
            checkpoint_every=NEVER,
            audit_every=0,
        )
        told = _run(folder, made.stage(folder / "cache", blobs), training)
    return _rows(told, steps)


def _run(folder: Path, dataset: Path, training: Training) -> list[Told]:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe(duplex=False) for _ in range(RANKS)]
    sockets = [socket.socketpair() for _ in range(RANKS)]
    companions = [Companion(BlockingChannel(own, RankMessage)) for own, _ in sockets]
    processes = []
    for rank, ((_, answer), (_, theirs)) in enumerate(zip(pipes, sockets, strict=True)):
        task = Task(rank, str(folder / "meeting"), dataset, folder / "buffers", training)
        processes.append(spawn.Process(target=_rank, args=(task, theirs, answer), daemon=True))
        processes[-1].start()
        theirs.close()
        answer.close()
    try:
        told = []
        for rank, (receive, _) in enumerate(pipes):
            if not receive.poll(ANSWER_SECONDS):
                raise TimeoutError(f"rank {rank} has not answered within {ANSWER_SECONDS:.0f} s")
            told.append(receive.recv())
        return told
    finally:
        for process in processes:
            process.join(5)
            process.kill()
        for companion in companions:
            companion.join()


def _rank(task: Task, sock: socket.socket, answer: Connection) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{task.meeting}",
        rank=task.rank,
        world_size=RANKS,
        timeout=timedelta(seconds=120),
    )
    group = dist.group.WORLD
    assert group is not None
    training = task.training
    plan = Plan(Layout(training.model), Shape(dp=RANKS), training.step.leaves)
    step = MeteredStep(
        training.model,
        training.optimizer,
        training.step,
        plan,
        rank=task.rank,
        epoch=1,
        group=group,
        audit_every=training.audit_every,
    )
    step.initialize()
    scatter = _Scatter(plan.layout.gradient_elements, group)
    step.after = scatter.measure
    lifeline = MeteredLifeline(BlockingChannel(sock, RankMessage), step, silence=20.0, collectives=lambda: "")
    read = TrainingData([task.dataset], training)
    paths = BufferPool(task.buffers).make("jobs/bench", 1, task.rank, size=plan.snapshot_size(task.rank), count=1)
    with SharedBuffer(paths[0], plan.snapshot_size(task.rank)) as buffer:
        before = seconds_on_a_core("lifeline")
        Loop(PROGRAM, training, step, read, read.first_ledger(), [buffer], lifeline).run()
        spent = seconds_on_a_core("lifeline") - before
    answer.send(
        Told(
            steps=step.seconds[WARMUPS:],
            talk=lifeline.talk[WARMUPS:],
            votes=step.votes[WARMUPS:],
            lifeline_seconds=spent / len(step.seconds),
            reduce=[result.timings.reduce for result in step.results[WARMUPS:]],
            reduce_scatter=scatter.seconds[WARMUPS:],
            sent_bytes=step.sent_bytes,
            peak_gradient_bytes=step.peak_gradient_bytes(),
            gradient_bytes=4 * plan.layout.gradient_elements,
        )
    )
    dist.destroy_process_group()


class _Scatter:
    """The peer of the reduction: gloo's reduce-scatter, from the arrival of both ranks."""

    def __init__(self, elements: int, group: dist.ProcessGroup) -> None:
        padded = -(-elements // RANKS) * RANKS
        self._group = group
        self._whole, self._part = torch.randn(padded), torch.empty(padded // RANKS)
        self.seconds: list[float] = []

    def measure(self) -> None:
        """One reduce-scatter, timed."""
        dist.barrier(self._group)
        started = time.perf_counter()
        dist.reduce_scatter_tensor(self._part, self._whole, group=self._group)
        self.seconds.append(time.perf_counter() - started)


def _rows(told: list[Told], steps: int) -> list[Row]:
    votes = [
        max(left for _, left in both) - max(entered for entered, _ in both)
        for both in zip(*(each.votes for each in told), strict=True)
    ]
    talks = [max(both) for both in zip(*(each.talk for each in told), strict=True)]
    lifeline = max(each.lifeline_seconds for each in told)
    spent = [vote + talk + lifeline for vote, talk in zip(votes, talks, strict=True)]
    crossed = [max(both) for both in zip(*(each.steps for each in told), strict=True)]
    mean = sum(spent) / sum(crossed)
    reduction = Pairs(
        tuple(max(both) for both in zip(*(each.reduce for each in told), strict=True)),
        tuple(max(both) for both in zip(*(each.reduce_scatter for each in told), strict=True)),
    )
    vector, mib = told[0].gradient_bytes, 2.0**20
    ring = vector * (RANKS - 1) / RANKS
    held = vector + vector / RANKS
    return [
        Row(
            what="rank: agent, vote, telemetry, reports",
            unit="ms a step",
            ours=1000 * median(spent),
            peer=1000 * median(crossed),
            ratio=bootstrap([part / whole for part, whole in zip(spent, crossed, strict=True)]),
            goal=ratio_at_most(SHARE),
            note=f"dp = 2, {len(spent)} steps, the slower rank of each; beside the step itself; {100 * mean:.2f} % in "
            f"the mean; of 250 ms it would be {100 * median(spent) / STEP_SECONDS:.2f} %",
        ),
        Row("  of it the vote, last arrival to last leave", "ms a step", 1000 * median(votes)),
        Row("  of it between steps: stop?, progress message", "ms a step", 1000 * median(talks)),
        Row("  of it the lifeline's thread, on a core", "ms a step", 1000 * lifeline),
        Row(
            what="reduce: bytes that a rank sends",
            unit="MiB",
            ours=max(each.sent_bytes for each in told) / mib,
            peer=ring / mib,
            ratio=bootstrap([max(each.sent_bytes for each in told) / ring]),
            note=f"exact, the rank that sends more; both {sum(each.sent_bytes for each in told) / mib:.2f} MiB; "
            f"peer: what a ring reduce-scatter of the same {vector / mib:.1f} MiB sends "
            "(tied embeddings are two streams of it)",
        ),
        Row(
            what="reduce: peak of gradient memory",
            unit="MiB",
            ours=max(each.peak_gradient_bytes for each in told) / mib,
            peer=held / mib,
            ratio=bootstrap([max(each.peak_gradient_bytes for each in told) / held]),
            note="partial sums alive at once, without the exchange; peer: one whole vector and its scattered part",
        ),
        Row(
            what="reduce: exchange and tree",
            unit="ms",
            ours=1000 * median(reduction.ours),
            peer=1000 * median(reduction.peer),
            ratio=reduction.cost(),
            note="without waiting for the slower rank; peer: gloo's reduce_scatter_tensor after a barrier",
        ),
    ]


if __name__ == "__main__":
    main("rank", __doc__, measure)
