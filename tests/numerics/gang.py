"""A gang of real ranks for the proofs: processes forked from one that has imported torch, over gloo.

A crew runs one function on every rank and returns what each returned, or raises what any of them raised.
"""

import hashlib
import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from tutti.model.chunks import KINDS, Layout
from tutti.model.plan import Plan, Shape
from tutti.model.results import Scalars, StepResult
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.step import RankStep

Result = TypeVar("Result")
Group = dist.ProcessGroup | None


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

    def tied(self) -> "Recipe":
        return replace(self, model=replace(self.model, tied=True))

    def batch(self, step: int, leaf: int) -> RowBatch:
        """A pure function of (step, leaf): random documents of random lengths, the end of each row padded."""
        source = np.random.Generator(np.random.Philox(key=np.array([step + self.batch_shift, leaf], dtype=np.uint64)))
        shape = (self.step.rows, self.model.context + 1)
        documents = np.cumsum(source.random(shape) < 0.1, axis=1)
        valid = np.arange(shape[1] - 1) < source.integers(shape[1] // 2, shape[1], size=(shape[0], 1))
        return RowBatch(source.integers(0, self.model.vocabulary, shape), documents, valid)


@dataclass(frozen=True)
class Checkpoint:
    """A whole state: snapshots of all ranks, put together by the plan's tables."""

    tensors: dict[tuple[int, str], bytes]
    scalars: Scalars

    @property
    def root(self) -> str:
        """One hash over all chunks and kinds and the scalars."""
        digest = hashlib.sha256(repr(self.scalars).encode())
        for chunk in range(len(self.tensors) // len(KINDS)):
            for kind in KINDS:
                digest.update(self.tensors[chunk, kind])
        return digest.hexdigest()

    def read(self, chunk: int, kind: str) -> memoryview:
        return memoryview(self.tensors[chunk, kind])


def snapshot(me: RankStep) -> dict[tuple[int, str], bytes]:
    """What this rank would store, cut as its plan says."""
    data = bytearray(me.snapshot_size())
    me.snapshot_into(memoryview(data))
    table = me.plan.snapshot_table(me.rank)
    return {(e.chunk, e.kind.value): bytes(data[e.offset : e.offset + e.nbytes]) for e in table}


@dataclass(frozen=True)
class Trained:
    """What a run left."""

    checkpoint: Checkpoint
    results: list[StepResult]
    evaluation: tuple[float, int]

    @property
    def losses(self) -> list[str]:
        return [result.loss.hex() for result in self.results]


def start(recipe: Recipe, dp: int, rank: int, group: Group, *, epoch: int = 1) -> RankStep:
    """A rank that is ready to initialize or load."""
    plan = Plan(Layout(recipe.model), Shape(dp), recipe.step.leaves)
    return RankStep(
        recipe.model,
        recipe.optimizer,
        recipe.step,
        plan,
        rank=rank,
        epoch=epoch,
        group=group,
        audit_every=recipe.audit_every,
    )


def step_once(me: RankStep, recipe: Recipe, step: int) -> StepResult:
    return me.run(step, {leaf: recipe.batch(step, leaf) for leaf in me.leaves_needed(step)})


def train(recipe: Recipe, dp: int, *, until: int, since: Checkpoint | None = None) -> Trained:
    """Run from the beginning, or from a checkpoint, up to a step; then evaluate five validation leaves."""

    def work(rank: int, group: Group) -> Any:
        me = start(recipe, dp, rank, group)
        if since is None:
            me.initialize()
        else:
            me.load(since.read, since.scalars)
        results = [step_once(me, recipe, step) for step in range(me.scalars().step + 1, until + 1)]
        return snapshot(me), me.scalars(), results, me.evaluate(5, lambda leaf: recipe.batch(10**6, leaf))

    found = on_ranks(dp, work)
    tensors = {key: data for part, *_ in found for key, data in part.items()}
    assert len({(str(scalars), evaluation) for _, scalars, _, evaluation in found}) == 1
    return Trained(Checkpoint(tensors, found[0][1]), found[0][2], found[0][3])


def on_ranks(dp: int, work: Callable[[int, Group], Result]) -> list[Result]:
    """Run `work(rank, group)` in dp forked processes; with one rank there is no group. Results by rank."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe(duplex=False) for _ in range(dp)]
        processes = [
            fork.Process(target=_rank, args=(rank, dp, Path(folder) / "meeting", work, pipes[rank][1]), daemon=True)
            for rank in range(dp)
        ]
        for process in processes:
            process.start()
        try:
            answers = [receive.recv() if receive.poll(120) else "no answer within 120 s" for receive, _ in pipes]
        finally:
            for process in processes:
                process.join(10)
                process.kill()
    failures = [f"rank {rank}: {answer}" for rank, answer in enumerate(answers) if isinstance(answer, str)]
    if failures:
        raise AssertionError("\n".join(failures))
    return [answer[0] for answer in answers]


def _rank(rank: int, dp: int, meeting: Path, work: Callable[..., Any], answer: Any) -> None:
    torch.set_num_threads(1)
    try:
        group: Group = None
        if dp > 1:
            limit = timedelta(seconds=60)
            dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=dp, timeout=limit)
            group = dist.group.WORLD
        answer.send((work(rank, group),))
    except BaseException:
        answer.send(traceback.format_exc())
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
