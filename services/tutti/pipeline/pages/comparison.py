"""The view of runs side by side: their curves over each other, their figures, and the keys that differ. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField
from tutti.contracts.pipeline.v1 import Run
from tutti.pipeline.pages.workbench import state_of, title_of
from tutti.report.comparing import LETTERS, Compared, figures, settings
from tutti.web.charts import Series
from tutti.web.overlays import Overlay, overlaid

LEAST = 2
ABOVE = ("run", "title", "state")
"""Figures that the heads of the columns have."""


@dataclass(frozen=True)
class ComparedRun:
    """A run and the letter of its curve; `number` is its place."""

    number: int
    letter: str
    name: str
    title: str
    state: str


@dataclass(frozen=True)
class CompareView:
    """`keys` differ; `equal` counts those that do not. `missing`: which services did not answer, in words."""

    runs: Sequence[ComparedRun]
    charts: Sequence[Overlay]
    figures: Sequence[Compared]
    keys: Sequence[Compared]
    equal: int
    hidden: Sequence[str]
    missing: Sequence[str]


def names_of(asked: Sequence[str]) -> list[str]:
    """The runs that a visitor selected, each once. Raises InvalidField."""
    names = list(dict.fromkeys(asked))
    if not LEAST <= len(names) <= len(LETTERS):
        expected = f"{LEAST} to {len(LETTERS)} runs: select them in the list of runs"
        raise InvalidField("run", seen=f"{len(names)} runs", expected=expected)
    return [name if name.startswith("runs/") else f"runs/{name}" for name in names]


def compare_view(runs: Sequence[Run], curves: Mapping[str, Sequence[Series]], missing: Sequence[str]) -> CompareView:
    """Runs side by side; `curves` by the letter of their run. The recipes of the runs in `hidden` are not shown."""
    every = settings([run for run in runs if run.spec.recipe])
    keys = settings(runs)
    different = {row.what for row in every if row.differs}
    return CompareView(
        runs=[ComparedRun(at, LETTERS[at], run.name, title_of(run), state_of(run)) for at, run in enumerate(runs)],
        charts=overlaid(curves),
        figures=[row for row in figures(runs) if row.what not in ABOVE],
        keys=[row for row in keys if row.what in different],
        equal=len(every) - len(different),
        hidden=[title_of(run) for run in runs if not run.spec.recipe],
        missing=missing,
    )
