"""The vote at the barrier: one record a rank, one writer a slot, the same decision everywhere.

A record holds small integers and one float a leaf and chunk, all as float64 (exact to 2^53). Nothing is summed on the
way; sums are taken here, in tree order. Does not import torch.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tutti.model.plan import Plan
from tutti.model.results import Outcome, StepMismatch
from tutti.model.tree import tree_sum

Record = npt.NDArray[np.float64]
HEADER = 4


@dataclass(frozen=True)
class Tally:
    """A rank's record of a leaf: the sum of its losses, and its share of the step's divisor."""

    loss: float
    count: int


@dataclass(frozen=True)
class Verdict:
    """The conclusion that all ranks draw from the same records."""

    outcome: Outcome
    loss: float
    gradient_norm: float
    count: int
    """Divisor of losses and gradients of the step: its tokens, or the count of the objective."""
    busy: tuple[float, ...]
    """Seconds each rank computed before the reduce."""
    summing: tuple[float, ...]
    """Seconds each rank worked between reduce and vote."""


def record_lengths(plan: Plan) -> list[int]:
    """Slots of every rank's record."""
    return [HEADER + 2 * len(plan.leaves_of(rank)) + len(plan.chunks_of(rank)) for rank in plan.ranks]


def write_record(
    *,
    step: int,
    epoch: int,
    busy: float,
    summing: float,
    tallies: Mapping[int, Tally],
    squares: Sequence[float],
) -> Record:
    """This rank's record. `squares` are the squared norms of its chunks of the summed gradient, in order."""
    leaves = [tallies[leaf] for leaf in sorted(tallies)]
    losses, counts = [leaf.loss for leaf in leaves], [leaf.count for leaf in leaves]
    return np.array([step, epoch, busy, summing, *losses, *counts, *squares], dtype=np.float64)


def decide(plan: Plan, records: Sequence[Record]) -> Verdict:
    """Commit, or skip when any number is not finite. Raises StepMismatch when ranks are not at the same barrier."""
    places = [(int(record[0]), int(record[1])) for record in records]
    if len(set(places)) > 1:
        seen = "; ".join(f"rank {rank}: step {at}, epoch {epoch}" for rank, (at, epoch) in enumerate(places))
        raise StepMismatch(f"ranks disagree on the barrier ({seen}); nobody commits: restart the gang in one new epoch")
    losses, counts, squares = [], [], []
    for rank, record in enumerate(records):
        leaves = len(plan.leaves_of(rank))
        losses.append(record[HEADER : HEADER + leaves])
        counts.append(record[HEADER + leaves : HEADER + 2 * leaves])
        squares.append(record[HEADER + 2 * leaves :])
    count = int(sum(int(each) for part in counts for each in part))
    loss, square = tree_sum(np.concatenate(losses)), tree_sum(np.concatenate(squares))
    finite = math.isfinite(loss) and math.isfinite(square) and count > 0
    return Verdict(
        outcome=Outcome.COMMITTED if finite else Outcome.SKIPPED,
        loss=loss / count if count else math.nan,
        gradient_norm=math.sqrt(square) / count if count and square >= 0 else math.nan,
        count=count,
        busy=tuple(float(record[2]) for record in records),
        summing=tuple(float(record[3]) for record in records),
    )
