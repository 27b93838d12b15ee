"""The results and failures of a step. Does not import torch.

Every error names the step, and the ranks, leaf or chunk it is about; after one, the state is as before the step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Any

from tutti.model.spec import Recorded, SpecError
from tutti.model.spikes import Spike, Watch
from tutti.records.records import later

SEEN = 8
"""Differences that an error lists before it only counts."""


class Outcome(Enum):
    """The common outcome of a step on all ranks."""

    COMMITTED = "committed"
    SKIPPED = "skipped"


class SkipCause(StrEnum):
    """The reason why a step changed nothing; it is recorded in the ledger of the state."""

    NOT_FINITE = "not finite"
    """A leaf is not finite, which its neighbour confirmed."""
    OVERFLOW = "overflow"
    """Every leaf is finite, but not their sum."""
    NO_TOKENS = "no valid token"
    SPIKE = "spike"
    """The loss or the gradient norm is far above that of the steps before, and the training skips such steps."""


class StepAborted(RuntimeError):
    """The step is void on every rank and this attempt must end."""


class StepMismatch(StepAborted):
    """Ranks disagree on which step or epoch they are in."""


@dataclass(frozen=True)
class Finding:
    """The verdict of an audit: ranks that are convicted, and pairs that disagree for no such reason. False if empty."""

    convicted: tuple[int, ...] = ()
    disagreements: tuple[tuple[int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.convicted or self.disagreements)

    @property
    def suspects(self) -> tuple[int, ...]:
        """The ranks of the disagreements."""
        return tuple(sorted({rank for pair in self.disagreements for rank in pair}))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Everybody that it names."""
        return tuple(sorted({*self.convicted, *self.suspects}))


class AuditFailed(StepAborted):
    """Ranks computed different results from the same input, or with different parameters."""

    def __init__(self, step: int, finding: Finding, seen: Sequence[str]) -> None:
        ranks = ", ".join(map(str, finding.convicted))
        words = [f"rank {ranks} computes wrongly"] if ranks else []
        if finding.suspects:
            words.append(f"one of ranks {', '.join(map(str, finding.suspects))} computes wrongly")
        rest = f" and {len(seen) - SEEN} more" if len(seen) > SEEN else ""
        super().__init__(f"step {step}: {', '.join(words)}: {'; '.join(seen[:SEEN])}{rest}")
        self.step, self.finding = step, finding


class SetupMismatch(StepAborted):
    """Ranks were started with different specs, layouts, shapes or kernels."""


@dataclass(frozen=True)
class Timings:
    """Wall seconds of one rank in one step. The *_wait parts are estimates: time until the slowest rank arrived."""

    forward_backward: float
    reduce_wait: float
    reduce: float
    vote_wait: float
    vote: float
    update: float
    gather: float
    audit: float


@dataclass(frozen=True)
class StepResult:
    """The same on every rank, apart from `timings`, which are this rank's."""

    step: int
    outcome: Outcome
    loss: float
    """Mean nats a valid token; not finite when the step was skipped for that."""
    gradient_norm: float
    """Norm of the mean gradient, before clipping."""
    rate: float
    tokens: int
    """Valid target tokens of all leaves."""
    timings: Timings
    busy: tuple[float, ...]
    """Seconds that each rank computed before it was ready to reduce: how a straggler shows."""
    skip: SkipCause | None = None
    """Set if the step was skipped."""
    spike: Spike | None = None
    """The spike that ended with this step or before it."""


def _watch(value: Mapping[str, Any]) -> Watch | None:
    return Watch.from_json(value)


@dataclass(frozen=True)
class Scalars(Recorded):
    """The canonical scalars of a state, beside its tensors."""

    step: int = 0
    """The last step crossed; 0 is the initial state."""
    skipped: tuple[int, ...] = ()
    """Every step that changed nothing, ascending."""
    loss_scale: float = 1.0
    watch: Watch | None = later(None, since="0.3", read=_watch)
    """The steps that the next one is compared with; None in a training that does not look for spikes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "skipped", tuple(self.skipped))
        if self.step < 0 or any(not 0 < step <= self.step for step in self.skipped):
            raise SpecError(f"scalars are step {self.step}, skipped {self.skipped}; expected 0 < skipped ≤ step")

    @property
    def updates(self) -> int:
        """The number of updates of the state."""
        return self.step - len(self.skipped)

    @property
    def skipped_in_a_row(self) -> int:
        """The number of steps skipped in a row up to the last one."""
        ascending = range(self.step, self.step - len(self.skipped), -1)
        return next((at for at, step in enumerate(ascending) if self.skipped[-1 - at] != step), len(self.skipped))

    def after(self, outcome: Outcome, watch: Watch | None = None) -> "Scalars":
        step = self.step + 1
        skipped = (*self.skipped, step) if outcome is Outcome.SKIPPED else self.skipped
        return replace(self, step=step, skipped=skipped, watch=watch)
