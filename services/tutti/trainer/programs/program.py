"""What a program defines: batches, objective, metrics and when a checkpoint is due.

Promises: everything in it is a function of the training and of the state, never of the rank or of the number of ranks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tutti.corpus.ledger import Ledger
from tutti.model.batch import LeafBatch
from tutti.model.objective import Objective
from tutti.model.step import RankStep
from tutti.model.training import Training


class Batches(Protocol):
    """What a program reads."""

    def first_ledger(self) -> Ledger:
        """Return the ledger of a job that starts from nothing."""
        ...

    def leaves(self, ledger: Ledger, step: int, wanted: Sequence[int]) -> Mapping[int, LeafBatch]:
        """Return the batches of these leaves of a step, by leaf. They follow from ledger, step and leaf alone."""
        ...


B = TypeVar("B", bound=Batches)


@dataclass(frozen=True)
class Metrics:
    """What was measured after a step beside its loss."""

    nats: float
    tokens: int
    bits_per_byte: float | None


@dataclass(frozen=True)
class Program(Generic[B]):
    """`read(folders, training)` opens the staged datasets; `measure(step, batches)` is collective.

    `measure_due` and `checkpoint_due` say after which steps; a checkpoint is due after the last one.
    """

    name: str
    objective: Objective
    read: Callable[[Sequence[Path], Training], B]
    measure: Callable[[RankStep, B], Metrics | None]
    measure_due: Callable[[Training, int], bool]
    checkpoint_due: Callable[[Training, int], bool]
