"""A gang of real ranks for the proofs: processes forked from one that has imported torch, over gloo.

A crew runs one function on every rank and returns what each returned, or raises what any of them raised.
"""

import faulthandler
import multiprocessing
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from tutti.checkpoints.curve import Recorder
from tutti.checkpoints.digests import leaf_digest, state_digest
from tutti.checkpoints.example_test import DATASET
from tutti.checkpoints.scalars import StateScalars
from tutti.corpus.tokens.ledger import Ledger, SkippedStep
from tutti.corpus.tokens.sampler import DatasetShare, Span
from tutti.model.chunks import Kind, Layout
from tutti.model.plan import Plan, Shape
from tutti.model.results import Outcome, Scalars, StepResult
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.spikes import OFF
from tutti.model.step import RankStep

ANSWER_SECONDS = 120.0
Result = TypeVar("Result")
Group = dist.ProcessGroup | None
Tensors = dict[tuple[int, str], bytes]
"""Bytes of every (chunk, kind)."""


@dataclass(frozen=True)
class RowBatch:
    """A leaf's input."""

    tokens: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]


MODEL = ModelSpec(vocabulary=320, width=64, layers=2, heads=4, kv_heads=2, hidden=192, context=32, qk_norm=True)
OPTIMIZER = OptimizerSpec(peak_rate=3e-3, steps=12, warmup_steps=2, clip_norm=0.5)
STEP = StepSpec(leaves=8, rows=2, seed=7)


@dataclass(frozen=True)
class Recipe:
    """What a run is, apart from its ranks."""

    model: ModelSpec = MODEL
    optimizer: OptimizerSpec = OPTIMIZER
    step: StepSpec = STEP
    audit_every: int = 2
    batch_shift: int = 0
    """Makes all batches others: how a test feeds one rank wrongly."""
    spikes: str = OFF

    def tied(self) -> "Recipe":
        return replace(self, model=replace(self.model, tied=True))

    def batch(self, step: int, leaf: int) -> RowBatch:
        """A pure function of (step, leaf): random documents of random lengths, the end of each row padded."""
        source = np.random.Generator(np.random.Philox(key=np.array([step + self.batch_shift, leaf], dtype=np.uint64)))
        shape = (self.step.rows, self.model.context + 1)
        documents = np.cumsum(source.random(shape) < 0.1, axis=1, dtype=np.int64)
        valid = np.arange(shape[1] - 1) < source.integers(shape[1] // 2, shape[1], size=(shape[0], 1))
        return RowBatch(source.integers(0, self.model.vocabulary, shape), documents, valid)


@dataclass(frozen=True)
class Checkpoint:
    """A whole state: snapshots of all ranks, put together by the plan's tables."""

    recipe: Recipe
    tensors: Mapping[tuple[int, str], bytes]
    scalars: Scalars

    @property
    def state_digest(self) -> str:
        """What a manifest of this state would say."""
        layout, step = Layout(self.recipe.model), self.recipe.step
        span = Span(0, (DatasetShare(DATASET, 1000, 1, 0),), step.seed, step.leaves, step.rows)
        skipped = tuple(SkippedStep(each - 1, "not finite") for each in self.scalars.skipped)
        position = self.scalars.step * step.leaves * step.rows
        leaves = [
            leaf_digest(layout, chunk, kind, self.tensors[chunk.index, kind.value])
            for chunk in layout.chunks
            for kind in Kind
        ]
        return state_digest(layout, leaves, StateScalars(self.scalars, position, Ledger((span,), skipped)).to_dict())

    def read(self, chunk: int, kind: str) -> memoryview:
        return memoryview(self.tensors[chunk, kind])


def snapshot(me: RankStep) -> Tensors:
    """What this rank would store, cut as its plan says."""
    data = bytearray(me.snapshot_size())
    me.snapshot_into(memoryview(data))
    table = me.plan.snapshot_table(me.rank)
    return {(e.chunk, e.kind.value): bytes(data[e.offset : e.offset + e.nbytes]) for e in table}


@dataclass(frozen=True)
class Trained:
    """What a run left: a checkpoint a step, and of each rank how many leaves it computed and chunks it kept."""

    checkpoints: Mapping[int, Checkpoint]
    results: list[StepResult]
    evaluation: tuple[float, int]
    leaves: list[int]
    chunks: list[int]
    parameter_bytes: list[int]
    """For each rank, the maximum number of bytes of parameters for computing that it held at once."""
    state_bytes: list[int]

    @property
    def last(self) -> Checkpoint:
        return self.checkpoints[max(self.checkpoints)]

    @property
    def digests(self) -> dict[int, str]:
        """Step to state digest."""
        return {step: checkpoint.state_digest for step, checkpoint in self.checkpoints.items()}

    @property
    def losses(self) -> list[str]:
        return [result.loss.hex() for result in self.results]

    @property
    def curve(self) -> bytes:
        """What a checkpoint after the last step would tell of all of them."""
        told = Recorder()
        for result in self.results:
            told.step(
                result.step,
                loss=result.loss,
                gradient_norm=result.gradient_norm,
                rate=result.rate,
                tokens=result.tokens,
                skipped=result.outcome is Outcome.SKIPPED,
            )
        return told.take().encode()


def start(recipe: Recipe, dp: int, rank: int, group: Group, *, epoch: int = 1, shard: str = "optimizer") -> RankStep:
    """A rank that is ready to initialize or load."""
    plan = Plan(Layout(recipe.model), Shape(dp, shard=shard), recipe.step.leaves)
    return RankStep(
        recipe.model,
        recipe.optimizer,
        recipe.step,
        plan,
        rank=rank,
        epoch=epoch,
        group=group,
        audit_every=recipe.audit_every,
        spikes=recipe.spikes,
    )


def step_once(me: RankStep, recipe: Recipe, step: int) -> StepResult:
    needed = {leaf: recipe.batch(step, leaf) for leaf in me.leaves_needed(step)}
    return me.run(step, needed, lambda leaf: recipe.batch(step, leaf))


def train(recipe: Recipe, dp: int, *, until: int, since: Checkpoint | None = None, shard: str = "optimizer") -> Trained:
    """Run from the beginning, or from a checkpoint, up to a step; then evaluate five validation leaves."""

    def work(rank: int, group: Group) -> Any:
        me = start(recipe, dp, rank, group, shard=shard)
        if since is None:
            me.initialize()
        else:
            me.load(since.read, since.scalars)
        results, states = list[StepResult](), dict[int, tuple[Tensors, Scalars]]()
        for step in range(me.scalars().step + 1, until + 1):
            results.append(step_once(me, recipe, step))
            states[step] = snapshot(me), me.scalars()
        evaluation = me.evaluate(5, lambda leaf: recipe.batch(10**6, leaf))
        of_plan = len(me.plan.leaves_of(rank)), len(me.plan.chunks_of(rank))
        return states, results, evaluation, (*of_plan, me.peak_parameter_bytes(), me.state_bytes())

    found = on_ranks(dp, work)
    checkpoints = {}
    for step in found[0][0]:
        parts = [states[step] for states, *_ in found]
        (scalars,) = {scalars for _, scalars in parts}
        checkpoints[step] = Checkpoint(recipe, {key: data for part, _ in parts for key, data in part.items()}, scalars)
    (evaluation,) = {evaluation for _, _, evaluation, _ in found}
    counts = [[counts[which] for *_, counts in found] for which in range(4)]
    return Trained(checkpoints, found[0][1], evaluation, *counts)


def on_ranks(dp: int, work: Callable[[int, Group], Result]) -> list[Result]:
    """Run `work(rank, group)` in dp forked processes; with one rank there is no group. Results by rank.

    A fork of a process with threads can inherit a lock that one of them held. If no rank answers they are started once
    more, and a warning has the places where they hung.
    """
    answers, hung = _answers(dp, work)
    if not any(answers):
        warnings.warn(f"no rank answered; they hung here:\n{hung}", stacklevel=2)
        answers, hung = _answers(dp, work)
    failures = [f"rank {rank}: {answer}" for rank, answer in enumerate(answers) if isinstance(answer, str)]
    silent = [rank for rank, answer in enumerate(answers) if answer is None]
    if failures or silent:
        raise AssertionError("\n".join([*failures, f"no answer of ranks {silent}:\n{hung}" if silent else ""]))
    return [answer[0] for answer in answers if isinstance(answer, tuple)]


def _answers(dp: int, work: Callable[[int, Group], Result]) -> tuple[list[tuple[Result] | str | None], str]:
    """The answer of each rank, None for one that is silent for too long; and where the ranks were before that."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pipes = [fork.Pipe(duplex=False) for _ in range(dp)]
        processes = [
            fork.Process(target=_rank, args=(rank, dp, folder, work, pipes[rank][1]), daemon=True) for rank in range(dp)
        ]
        for process in processes:
            process.start()
        deadline = time.monotonic() + ANSWER_SECONDS
        try:
            answers: list[tuple[Result] | str | None] = [
                receive.recv() if receive.poll(max(1.0, deadline - time.monotonic())) else None for receive, _ in pipes
            ]
        finally:
            for process in processes:
                process.join(10)
                process.kill()
        return answers, "\n".join(path.read_text() for path in sorted(folder.glob("hung-*")))


def _rank(rank: int, dp: int, folder: Path, work: Callable[..., Any], answer: Any) -> None:
    hung = (folder / f"hung-{rank}").open("w")
    faulthandler.dump_traceback_later(ANSWER_SECONDS - 20, file=hung)
    torch.set_num_threads(1)
    try:
        group: Group = None
        if dp > 1:
            limit = timedelta(seconds=60)
            meeting = folder / "meeting"
            dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=dp, timeout=limit)
            group = dist.group.WORLD
        answer.send((work(rank, group),))
    except BaseException:
        answer.send(traceback.format_exc())
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
