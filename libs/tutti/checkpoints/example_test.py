"""A small training and its snapshots, for tests and examples: a few chunks, any number of ranks, no torch.

The bytes follow from the seed and the step alone, as a real state does from its recipe, whatever the shape.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tutti.checkpoints.curve import Curve, Recorder
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.writer import Snapshot, plan_of
from tutti.corpus.tokens.ledger import Ledger, SkippedStep
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.plan import Shape
from tutti.model.programs.grpo import GrpoParameters
from tutti.model.results import Scalars
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training
from tutti.records.canonical import JsonValue

DATASET = "blake3:" + "d" * 64
KERNEL: dict[str, JsonValue] = {"machine": "example", "threads": 1}


def training(*, steps: int = 100, seed: int = 0) -> Training:
    """Seven chunks, four leaves."""
    return Training(
        model=ModelSpec(vocabulary=64, width=16, layers=1, heads=2, kv_heads=1, hidden=32, context=8),
        optimizer=OptimizerSpec(peak_rate=1e-3, steps=steps),
        step=StepSpec(leaves=4, rows=1, seed=seed),
        dataset=DATASET,
        checkpoint_every=5,
    )


def policy(*, iterations: int) -> Training:
    """A training of a policy, with iterations of five steps and a checkpoint after each."""
    settings = GrpoParameters(prompts=2, group=2, tokens=4, epochs=5)
    return replace(training(steps=5 * iterations), program="grpo", program_parameters=settings)


def scalars(step: int, *, skipped: tuple[int, ...] = ()) -> StateScalars:
    span = Span(0, (DatasetShare(DATASET, 1000, 1, 0),), seed=1, leaves=4, rows_per_leaf=1)
    ledger = Ledger((span,), tuple(SkippedStep(at - 1, "not finite") for at in skipped))
    return StateScalars(Scalars(step, skipped, 1.0), position=4 * step, ledger=ledger)


def state(of: Training, step: int) -> dict[tuple[int, str], bytes]:
    """Little-endian float32 bytes of every (chunk, kind)."""
    layout = plan_of(of, Shape(1)).layout
    found = {}
    for entry in plan_of(of, Shape(1)).snapshot_table(0):
        generator = np.random.default_rng([of.step.seed, step, entry.chunk, len(entry.kind.value)])
        found[entry.chunk, entry.kind.value] = (
            generator.standard_normal(layout.chunks[entry.chunk].length).astype("<f4").tobytes()
        )
    return found


def buffer(of: Training, shape: Shape, rank: int, step: int) -> memoryview:
    """What a rank of this shape copies into its snapshot buffer."""
    values = state(of, step)
    return memoryview(
        b"".join(values[entry.chunk, entry.kind.value] for entry in plan_of(of, shape).snapshot_table(rank))
    )


def curve(after: int, until: int) -> Curve:
    """Of the steps in (after, until]; every seventh was skipped, because its loss was not finite."""
    told = Recorder()
    for step in range(after + 1, until + 1):
        skipped = step % 7 == 0
        loss = math.nan if skipped else 4 / step
        told.step(step, loss=loss, gradient_norm=1 / step, rate=1e-3, tokens=32, skipped=skipped)
    told.validation(until, nats=2.5 * 64, tokens=64, bits_per_byte=1.5)
    return told.take()


def snapshot(of: Training, shape: Shape, name: ShardName, *, node: str = "nodes/a") -> Snapshot:
    """Each tells the curve since the snapshot that was due before."""
    told = curve(max(0, name.step - of.checkpoint_every), name.step).encode()
    return Snapshot(name, node, shape, of, KERNEL, scalars(name.step), 2.5, 1.5, told)
