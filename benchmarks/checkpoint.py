"""The stall of a checkpoint beside a memcpy of the same bytes.

One rank runs the product's loop with a snapshot after every step; the stall is all that its loop does between a step's
progress message and the next step: copying its state into shared memory, the scalars, the message. The peer copies as
many bytes between the same kinds of memory, at the next step boundary. Nothing writes the snapshots meanwhile.
"""

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks import data
from benchmarks.meters import Companion, MeteredLifeline, MeteredStep
from benchmarks.pairs import Pairs, median
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
from tutti.trainer.io.buffers import BufferPool, SharedBuffer, buffer_folder, clear
from tutti.trainer.programs.pretrain import PROGRAM
from tutti.trainer.rank.loop import Loop

GOAL = 1.5
BUFFERS = 2
REST_SECONDS = 0.002
MODEL = ModelSpec(vocabulary=4096, width=512, layers=6, heads=8, kv_heads=8, hidden=1408, context=16)
LEAST_BYTES = 256 << 20


def measure(quick: bool) -> list[Row]:
    """The stall of a snapshot beside a copy of its bytes."""
    steps = BUFFERS + 1 + (10 if quick else 40)
    torch.set_num_threads(1)
    with scratch("checkpoint") as name:
        folder = Path(name)
        blobs = EmbeddedBlobs(folder / "blobs")
        made = data.make(blobs, vocabulary=MODEL.vocabulary, context=MODEL.context, sequences=4096)
        training = Training(
            model=MODEL,
            optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps, warmup_steps=5),
            step=StepSpec(leaves=1, rows=1),
            dataset=made.digest,
            checkpoint_every=1,
            audit_every=0,
        )
        shared = buffer_folder(folder)
        try:
            clear(shared)
            found = _run(training, made.stage(folder / "cache", blobs), shared)
        finally:
            clear(shared)
            shared.rmdir()
    pairs = Pairs(tuple(found.stalls[BUFFERS:]), tuple(found.copies[BUFFERS:]))
    cores = Pairs(tuple(found.stalls_on_a_core[BUFFERS:]), tuple(found.copies_on_a_core[BUFFERS:]))
    how = f"{found.size / 2**20:.0f} MiB of state, {len(pairs.ours)} snapshots; peer: numpy.copyto into shared memory"
    return [
        Row(
            what="checkpoint stall",
            unit="ms",
            ours=1000 * median(pairs.ours),
            peer=1000 * median(pairs.peer),
            ratio=pairs.cost(),
            goal=ratio_at_most(GOAL),
            note=how,
        ),
        Row(
            what="  the same, time on a core",
            unit="ms",
            ours=1000 * median(cores.ours),
            peer=1000 * median(cores.peer),
            ratio=cores.cost(),
            note="cleaner where others use the cores too",
        ),
        Row(
            what="  the same, first use of each buffer",
            unit="ms",
            ours=1000 * max(found.stalls[:BUFFERS]),
            peer=1000 * max(found.copies[:BUFFERS]),
            note=f"the worst of {BUFFERS}: memory is reserved beforehand, but mapped by the first write",
        ),
    ]


@dataclass(frozen=True)
class Measured:
    """Of every snapshot in order: seconds by the clock and on a core."""

    size: int
    stalls: list[float]
    stalls_on_a_core: list[float]
    copies: list[float]
    copies_on_a_core: list[float]


def _run(training: Training, dataset: Path, shared: Path) -> Measured:
    plan = Plan(Layout(training.model), Shape(dp=1), training.step.leaves)
    size = plan.snapshot_size(0)
    if size < LEAST_BYTES:
        raise ValueError(f"{size} bytes of state; expected at least {LEAST_BYTES}")
    step = MeteredStep(training.model, training.optimizer, training.step, plan, rank=0, epoch=1, audit_every=0)
    step.initialize()
    own, theirs = socket.socketpair()
    Companion(BlockingChannel(theirs, RankMessage))
    lifeline = MeteredLifeline(
        BlockingChannel(own, RankMessage), step, silence=60.0, collectives=lambda: "", leave=lambda code: None
    )
    paths = BufferPool(shared).make("jobs/bench", 1, 0, size=size, count=2 * BUFFERS)
    buffers = [SharedBuffer(path, size) for path in paths]
    source = np.random.default_rng(1).integers(0, 255, size, dtype=np.uint8)
    targets = [np.frombuffer(buffer.view, np.uint8) for buffer in buffers[BUFFERS:]]
    copies: list[float] = []
    copies_on_a_core: list[float] = []

    def copy() -> None:
        if len(copies) < len(lifeline.stalls):
            time.sleep(REST_SECONDS)
            started, on_a_core = time.perf_counter(), time.thread_time()
            np.copyto(targets[len(copies) % BUFFERS], source)
            copies.append(time.perf_counter() - started)
            copies_on_a_core.append(time.thread_time() - on_a_core)

    lifeline.at_boundary = copy
    step.after = lambda: time.sleep(REST_SECONDS)  # both begin rested: see pairs.alternate
    read = TrainingData([dataset], training)
    Loop(PROGRAM, training, step, read, read.first_ledger(), buffers[:BUFFERS], lifeline).run()
    return Measured(size, lifeline.stalls, lifeline.stalls_on_a_core, copies, copies_on_a_core)


if __name__ == "__main__":
    main("checkpoint", __doc__, measure)
