"""The results and failures of a step. Does not import torch.

Every error names the step, and the ranks, leaf or chunk it is about; after one, the state is as before the step.
"""

from dataclasses import dataclass, replace
from enum import Enum

from tutti.model.spec import Recorded, SpecError


class Outcome(Enum):
    """The common outcome of a step on all ranks."""

    COMMITTED = "committed"
    SKIPPED = "skipped"


class StepAborted(RuntimeError):
    """The step is void on every rank and this attempt must end."""


class StepMismatch(StepAborted):
    """Ranks disagree on which step or epoch they are in."""


class ParameterAuditFailed(StepAborted):
    """A rank computes with parameters that are not those of their keeper."""

    def __init__(self, step: int, chunk: int, name: str, rank: int) -> None:
        super().__init__(
            f"step {step}: rank {rank} holds other bits in chunk {chunk} ({name}) than the chunk's keeper; "
            f"suspect the memory or the links of rank {rank}; resume from the last checkpoint without it"
        )
        self.step, self.chunk, self.name, self.rank = step, chunk, name, rank


class LeafAuditFailed(StepAborted):
    """Two ranks computed the same leaf and got different gradients."""

    def __init__(self, step: int, leaf: int, ranks: tuple[int, int]) -> None:
        super().__init__(
            f"step {step}: ranks {ranks[0]} and {ranks[1]} got different gradients for leaf {leaf}; "
            "one of them computes wrongly, or was fed another batch; resume with one of them replaced"
        )
        self.step, self.leaf, self.ranks = step, leaf, ranks


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


@dataclass(frozen=True)
class Scalars(Recorded):
    """The canonical scalars of a state, beside its tensors."""

    step: int = 0
    """The last step crossed; 0 is the initial state."""
    skipped: tuple[int, ...] = ()
    """Every step that changed nothing, ascending."""
    loss_scale: float = 1.0

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

    def after(self, outcome: Outcome) -> "Scalars":
        step = self.step + 1
        skipped = (*self.skipped, step) if outcome is Outcome.SKIPPED else self.skipped
        return replace(self, step=step, skipped=skipped)
