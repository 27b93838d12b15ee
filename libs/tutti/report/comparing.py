"""Runs side by side: the settings, figures and times in which they differ. Pure: a run keeps its figures."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.chassis.enums import word
from tutti.client.titles import title_of
from tutti.contracts.common.v1 import State
from tutti.contracts.pipeline.v1 import Run, RunTraining
from tutti.report.durations import seconds
from tutti.report.values import shown
from tutti.web.formats import duration

MISSING = "-"
LETTERS = "abcdefgh"
"""Names of runs that are compared; no more than these at once."""


@dataclass(frozen=True)
class Compared:
    """A figure or a setting with its value in each run, "-" where a run has none."""

    what: str
    values: tuple[str, ...]
    differs: bool


@dataclass(frozen=True)
class Change:
    """A key of a recipe, its value, and the value in the run before; "-" for a key that one of them does not have."""

    key: str
    value: str
    before: str


def training_of(run: Run) -> RunTraining:
    """The newest training of a run: as it was kept at its end, or how far it is; empty without one."""
    kept = run.figures.training
    live = run.HasField("training") and run.training.job != kept.job
    return run.training if live else kept


def figures(runs: Sequence[Run]) -> list[Compared]:
    """A row for each figure of runs."""
    return [_row(what, [value(run) or MISSING for run in runs]) for what, value in FIGURES.items()]


def settings(runs: Sequence[Run]) -> list[Compared]:
    """A row for each key of the recipes of runs, by name."""
    every = [leaves(run) for run in runs]
    keys = sorted({key for found in every for key in found})
    return [_row(key, [found.get(key, MISSING) for found in every]) for key in keys]


def changes(run: Run, before: Run) -> list[Change]:
    """The keys in which the recipe of a run differs from that of a run before it; none if one is not shown."""
    if not (run.spec.recipe and before.spec.recipe):
        return []
    return [Change(row.what, *row.values) for row in settings([run, before]) if row.differs]


def leaves(run: Run) -> dict[str, str]:
    """The value of each key of the recipe of a run, as text, by its dotted name; without its title."""
    found = dict(_leaves(json.loads(run.spec.recipe or "{}")))
    return {key: _text(value) for key, value in found.items() if key != "name"}


def _row(what: str, values: Sequence[str]) -> Compared:
    return Compared(what, tuple(values), differs=len(set(values)) > 1)


def _training(figure: Callable[[RunTraining], str]) -> Callable[[Run], str]:
    """A figure of a training; "" for a run without one."""
    return lambda run: figure(training) if (training := training_of(run)).job else ""


def _optional(field: str, form: str) -> Callable[[RunTraining], str]:
    return lambda found: format(getattr(found, field), form) if found.HasField(field) else ""  # type: ignore[arg-type]


FIGURES: Mapping[str, Callable[[Run], str]] = {
    "run": lambda run: run.name,
    "title": title_of,
    "state": lambda run: word(State.DESCRIPTOR, State.Name(run.state)),
    "documents kept": lambda run: f"{run.figures.documents:,}" if run.figures.HasField("documents") else "",
    "tokens": lambda run: f"{run.figures.tokens:,}" if run.figures.HasField("tokens") else "",
    "parameters": _training(_optional("parameters", ",")),
    "steps": _training(lambda found: f"{found.step:,}"),
    "loss": _training(_optional("loss", ".4f")),
    "bits per byte": _training(_optional("bits_per_byte", ".4f")),
    "tokens a second": _training(_optional("tokens_per_second", ",.0f")),
    "took": lambda run: duration(seconds(run)) if run.HasField("ended_at") else "",
    "model digest": _training(lambda found: shown(found.model_digest, short=True) if found.model_digest else ""),
}
"""The figures of a run by name, each as text; "" where it has none."""


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _text(value: Any) -> str:
    return MISSING if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
