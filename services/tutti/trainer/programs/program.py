"""The definition of a program: batches, objective, metrics and checkpoint schedule.

Promises: everything in it is a function of the training and of the state, never of the rank or of the number of ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tutti.corpus.conversations.experience import Experience
from tutti.corpus.tokens.ledger import Ledger
from tutti.model.batch import LeafBatch
from tutti.model.objective import Objective
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics


class Batches(Protocol):
    """The data that a program reads."""

    @property
    def note(self) -> str:
        """A text about the samples that were left out, and why; "" for none. It becomes a line of the job's history."""
        return ""

    def first_ledger(self) -> Ledger:
        """Return the ledger of a job that starts from nothing."""
        ...

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, LeafBatch]:
        """Return the batches of these leaves of a step, by leaf. They follow from ledger, step and leaf alone."""
        ...

    def prepare(self, step: RankStep, number: int) -> None:
        """Do what must be done with the state at hand before `leaves` of step `number`; nothing unless overridden.

        Collective: the loop calls it on every rank.
        """
        return None


B = TypeVar("B", bound=Batches)


@dataclass(frozen=True)
class Program(Generic[B]):
    """`read(staged, training)` opens what was staged; `measure(step, batches)` is collective; `objective(training)` is
    what the ranks minimise.

    `finish` changes the state after the last step, before it is measured and kept; it is collective and returns what
    it decided, by name. `measure_due` and `checkpoint_due` say after which steps; a checkpoint is due after the last
    one. `experience` is what `prepare` rolled out for the step at hand, the same on every rank.
    """

    name: str
    objective: Callable[[Training], Objective]
    read: Callable[[Staged, Training], B]
    measure: Callable[[RankStep, B], Metrics | None]
    measure_due: Callable[[Training, int], bool]
    checkpoint_due: Callable[[Training, int], bool]
    finish: Callable[[RankStep, B], Mapping[str, float]] = lambda step, batches: {}
    experience: Callable[[B], Experience | None] = lambda batches: None
