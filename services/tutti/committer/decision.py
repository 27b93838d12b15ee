"""The next step of a line to decide, and whether it is ready.

Steps are decided in order, and no due one is skipped: a later snapshot waits for the ones before it. A step whose bytes
were found damaged cannot be decided in this epoch, and holds up nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum


class ShardState(Enum):
    """The state of a shard. LATE ones are of a sealed epoch: evidence, never part of a checkpoint."""

    REPORTED = "reported"
    PENDING = "pending"
    CLAIMED = "claimed"
    VERIFIED = "verified"
    FAILED = "failed"
    LATE = "late"


@dataclass(frozen=True)
class Progress:
    """A rank's shard of a step."""

    step: int
    rank: int
    state: ShardState


@dataclass(frozen=True)
class Next:
    """The step that must be decided before any other; `waits_for` says what it lacks, in words."""

    step: int
    waits_for: str

    @property
    def ready(self) -> bool:
        return not self.waits_for


def next_step(shards: Iterable[Progress], *, base: int, ranks: int, due: Callable[[int], bool]) -> Next | None:
    """The next step above `base`, from the shards of the open epoch; None when nothing was reported above it."""
    by_step: dict[int, dict[int, ShardState]] = {}
    for shard in shards:
        if shard.step > base:
            by_step.setdefault(shard.step, {})[shard.rank] = shard.state
    if not by_step:
        return None
    for step in range(base + 1, max(by_step) + 1):
        states = by_step.get(step)
        if states is None:
            if due(step):
                return Next(step, f"no rank has reported step {step}")
        elif ShardState.FAILED not in states.values():
            return Next(step, _missing(states, ranks))
    return None


def _missing(states: dict[int, ShardState], ranks: int) -> str:
    if silent := [rank for rank in range(ranks) if rank not in states]:
        return f"ranks {silent} have not reported"
    if unread := sorted(rank for rank, state in states.items() if state is not ShardState.VERIFIED):
        return f"shards of ranks {unread} are not verified"
    return ""
