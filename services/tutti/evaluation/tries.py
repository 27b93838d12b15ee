"""Tries of a gate: how often a candidate was held against a baseline, each time by other judgements.

Promises: the same judgements are one try, however often a release is made of them. The k-th try has the level
.05 / (k (k + 1)), whose sum over all tries is .05, so trying again until a gate passes does not make it pass by luck.
"""

from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, func, select

from tutti.chassis.store.tables import NAME, declare
from tutti.chassis.store.unit import Unit
from tutti.evaluation.comparing import CONFIDENCE
from tutti.judgements.intervals import student


@dataclass(frozen=True, slots=True)
class Try:
    """The number of a try, from 1."""

    number: int

    @property
    def level(self) -> float:
        """The probability that a bound of this try is wrong."""
        return (1 - CONFIDENCE) / (self.number * (self.number + 1))

    def low(self, mean: float, low: float, clusters: int) -> float:
        """The low bound at the level of this try of a win rate whose bound at CONFIDENCE is `low`.

        `clusters` is the smaller number of annotators and prompts; if it is not known, as few as make a bound.
        """
        freedom = max(1, clusters - 1)
        wider = student(1 - self.level, freedom) / student(CONFIDENCE, freedom)
        return max(0.0, mean - (mean - low) * wider)


class Tries:
    """The table of tries."""

    def __init__(self, metadata: MetaData) -> None:
        self.table = declare(
            "gate_tries",
            metadata,
            Column("candidate", NAME, primary_key=True),
            Column("baseline", NAME, primary_key=True),
            Column("judged", NAME, primary_key=True),
            Column("number", Integer, nullable=False),
        )

    def of(self, unit: Unit, candidate: str, baseline: str, judged: str) -> Try:
        """The try of these judgements, by the digests of both states and of the comparison; a new one is recorded."""
        table = self.table
        both = (table.c.candidate == candidate, table.c.baseline == baseline)
        known = unit.tx.execute(select(table.c.number).where(*both, table.c.judged == judged)).first()
        if known is not None:
            return Try(known.number)
        last = unit.tx.execute(select(func.max(table.c.number)).where(*both)).scalar() or 0
        unit.insert_new(table, [{"candidate": candidate, "baseline": baseline, "judged": judged, "number": last + 1}])
        return Try(last + 1)
