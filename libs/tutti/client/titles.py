"""Titles of runs."""

from tutti.client.plain import Plain
from tutti.contracts.pipeline.v1 import Run

MOST_TITLE = 200
"""The number of characters that a title may have."""


def title_of(run: Run) -> str:
    """Return the title that a user gave a run, or that of its recipe; "" if it has neither."""
    return run.labels.title or run.spec.title


def title_in(run: Plain) -> str:
    """Return the title of a run that is given as plain values, as `title_of` does."""
    return str((run["labels"] or {}).get("title") or run["spec"]["title"])
