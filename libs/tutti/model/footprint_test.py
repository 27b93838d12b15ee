"""The memory of a training: a lower bound of what a rank holds, and one that grows with what can be too large."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.chunks import Layout
from tutti.model.footprint import FEWEST_BYTES, MOST_TIMES, NUMBER_BYTES, SNAPSHOTS, STATE_NUMBERS, footprint
from tutti.model.plan import PARAMETERS
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training

STEP = """
import re, sys
from pathlib import Path
import numpy as np
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.step import RankStep
from tutti.model.step_test import Rows
from tutti.model.training import Training

def most():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

training = Training.from_json(sys.argv[1])
model, spec = training.model, training.step
shape = (spec.rows, model.context + 1)
before = most()
plan = Plan(Layout(model), Shape(1), spec.leaves)
rank = RankStep(model, training.optimizer, spec, plan, rank=0, epoch=1, audit_every=training.audit_every)
rank.initialize()
row = Rows(np.ones(shape, np.uint32), np.zeros(shape, np.int32), np.full((spec.rows, model.context), True))
rank.run(1, {0: row})
print(most() - before)
"""
"""A step of a rank in a process of its own, which prints the bytes by which its memory grew. Not by `getrusage`: that
begins with the memory of the process which started it (getrusage(2), ru_maxrss is kept over execve).
"""


def training(*, rows: int = 2, audit_every: int = 10, **model: int) -> Training:
    small = ModelSpec(vocabulary=512, width=32, layers=2, heads=2, kv_heads=2, hidden=96, context=64)
    return Training(
        model=replace(small, **model),  # type: ignore[arg-type]
        optimizer=OptimizerSpec(peak_rate=1e-3, steps=20),
        step=StepSpec(leaves=1, rows=rows),
        dataset="blake3:" + "0" * 64,
        checkpoint_every=5,
        audit_every=audit_every,
    )


def grown(asked: Training) -> int:
    done = subprocess.run([sys.executable, "-c", STEP, asked.to_json()], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.parametrize(
    "model", [{"context": 3000}, {"width": 512, "hidden": 2048, "context": 512}, {"vocabulary": 200_000, "width": 64}]
)
def test_no_rank_needs_less_than_its_footprint(model: dict[str, int]) -> None:
    asked = training(audit_every=0, **model)
    snapshots = NUMBER_BYTES * SNAPSHOTS * STATE_NUMBERS * Layout(asked.model).parameters
    needed = footprint(asked, 1).rank - snapshots
    assert grown(asked) / MOST_TIMES < needed <= grown(asked)


def test_a_context_that_no_laptop_has_memory_for_is_seen_in_the_mask_of_its_documents() -> None:
    whole = footprint(training(context=200_000), 1)
    assert whole.rank > 200 * 10**9
    assert footprint(training(context=200_000), 1, activation_bytes=FEWEST_BYTES).rank > 100 * 10**9


@given(
    st.sampled_from(["rows", "context", "vocabulary", "width", "layers", "hidden"]),
    st.integers(1, 8),
    st.sampled_from(["", PARAMETERS]),
)
def test_more_of_anything_needs_no_less(key: str, ranks: int, shard: str) -> None:
    small = training(**{key: 64})
    large = training(**{key: 128})
    assert footprint(small, ranks, shard).rank < footprint(large, ranks, shard).rank
    assert footprint(small, ranks, shard).gang < footprint(large, ranks, shard).gang


def test_more_ranks_share_the_state_and_need_more_together() -> None:
    one, four = (footprint(training(), ranks) for ranks in (1, 4))
    assert four.rank < one.rank == one.gang < four.gang
    assert 0 <= 4 * four.rank - four.gang < 4
    assert footprint(training(), 8, PARAMETERS).rank < footprint(training(), 8).rank


def test_an_audit_holds_a_second_gradient() -> None:
    audited, unaudited = (footprint(training(audit_every=every), 1) for every in (10, 0))
    assert audited.rank - unaudited.rank == NUMBER_BYTES * Layout(training().model).parameters
