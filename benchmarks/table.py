"""Rows: what was measured, beside what, against which goal; and the table of them.

Promises: a goal that was missed reads "no"; what could not be measured says why and counts as neither.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, Self

from benchmarks.pairs import Estimate, Pairs, median


class Sense(Enum):
    """Which side of its bound a goal wants."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


class Of(Enum):
    """What a goal bounds."""

    OURS = "ours"
    RATIO = "ratio"


@dataclass(frozen=True)
class Goal:
    """A bound that was set before anything was measured."""

    of: Of
    sense: Sense
    bound: float

    def met(self, value: float) -> bool:
        """Whether a value lies on the right side of the bound, which belongs to it."""
        return value >= self.bound if self.sense is Sense.AT_LEAST else value <= self.bound


def ratio_at_least(bound: float) -> Goal:
    """The ratio's median must not lie below."""
    return Goal(Of.RATIO, Sense.AT_LEAST, bound)


def ratio_at_most(bound: float) -> Goal:
    """The ratio's median must not lie above."""
    return Goal(Of.RATIO, Sense.AT_MOST, bound)


def at_least(bound: float) -> Goal:
    """Ours must not lie below."""
    return Goal(Of.OURS, Sense.AT_LEAST, bound)


def at_most(bound: float) -> Goal:
    """Ours must not lie above."""
    return Goal(Of.OURS, Sense.AT_MOST, bound)


@dataclass(frozen=True)
class Row:
    """`ours` and `peer` in `unit`, medians unless `what` says otherwise; `note`: who the peer is, and how it was."""

    what: str
    unit: str = ""
    ours: float | None = None
    peer: float | None = None
    ratio: Estimate | None = None
    goal: Goal | None = None
    note: str = ""

    @classmethod
    def of_speed(
        cls, what: str, *, unit: str, amount: float, pairs: Pairs, goal: Goal | None = None, note: str = ""
    ) -> Self:
        """How much of `amount` a second, ours beside the peer's, by the seconds that all of it took in each turn."""
        ours, peer = amount / median(pairs.ours), amount / median(pairs.peer)
        return cls(what, unit, ours, peer, pairs.speed(), goal, note)

    @property
    def met(self) -> bool | None:
        """None: there is no goal, or nothing was measured."""
        if self.goal is None:
            return None
        value = self.ours if self.goal.of is Of.OURS else self.ratio.median if self.ratio else None
        return None if value is None else self.goal.met(value)

    def to_json(self) -> dict[str, Any]:
        """As plain values, and whether its goal is met."""
        found = asdict(self)
        if self.goal is not None:
            found["goal"] = {"of": self.goal.of.value, "sense": self.goal.sense.value, "bound": self.goal.bound}
        return {**found, "met": self.met}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The row of `to_json`."""
        given = {field.name: value[field.name] for field in fields(cls)}
        if given["ratio"] is not None:
            given["ratio"] = Estimate(**given["ratio"])
        if (goal := given["goal"]) is not None:
            given["goal"] = Goal(Of(goal["of"]), Sense(goal["sense"]), goal["bound"])
        return cls(**given)


HEADER = ("what", "ours", "peer", "ratio [95 %]", "goal", "met?")


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table, a text a column."""
    ratio = f"{_number(row.ratio.median)} [{_number(row.ratio.low)}, {_number(row.ratio.high)}]" if row.ratio else ""
    goal = ""
    if row.goal is not None:
        unit = f" {row.unit}" if row.goal.of is Of.OURS and row.unit else ""
        goal = f"{row.goal.of.value} {row.goal.sense.value} {_number(row.goal.bound)}{unit}"
    met = {True: "yes", False: "NO", None: "-" if row.goal is None else "not measured"}[row.met]
    return (row.what, _with_unit(row.ours, row.unit), _with_unit(row.peer, row.unit), ratio, goal, met)


def render(rows: Sequence[Row]) -> str:
    """The table, and below it what is to be said of each row."""
    lines = [HEADER, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"  {row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*text, *(["", "How:", *notes] if notes else [])])


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
