"""Numbers and times as people read them: filters for templates."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from markupsafe import Markup

from tutti.records.counts import counted
from tutti.records.sizes import size
from tutti.web.charts import Series, chart
from tutti.web.overlays import Overlay, overlay

Drawing = TypeVar("Drawing", Series, Overlay)
REMEDIES: Mapping[str, str] = {
    "no_text": "Set input.text_field to the name of the field that holds the texts.",
    "too_large": "Raise input.max_file_bytes.",
    "malformed": "Check that each line is one JSON object in UTF-8.",
    "pdf": "Convert PDF files to text first.",
    "table": "Convert tables to JSON lines or Parquet.",
}
"""The remedy for pages and records that were left out, by the reason."""


def count(number: int) -> str:
    return f"{number:,}"


def moment(text: str) -> str:
    """`2026-11-21T22:10:11.5Z`, to the minute."""
    return f"{text[:16].replace('T', ' ')} UTC" if text else ""


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def skipped(steps: int, in_a_row: int) -> str:
    """Return how many steps of a training changed nothing, `in_a_row` of them the newest ones; "" for none."""
    newest = "the last step was skipped" if in_a_row == 1 else f"the last {in_a_row:,} steps were skipped"
    if not in_a_row:
        return f"{counted(steps, 'step')} skipped" if steps else ""
    return newest + (f", {steps:,} in all" if steps > in_a_row else "")


def remedy(counts: Mapping[str, int]) -> str:
    """The remedy for the most frequent of the reasons for which pages and records were left out; "" without one."""
    most = max(counts, key=lambda reason: (counts[reason], reason), default="")
    return REMEDIES.get(most, "")


def drawn(series: Series, ident: str) -> Markup:
    """A chart as SVG; empty where there is no finite number to draw. A large one has a small form for phones."""
    return _fitting(series, lambda each, name: chart(each, ident=name), ident)


def overlaid(found: Overlay, ident: str) -> Markup:
    """Curves over each other as SVG; empty where there is no finite number to draw."""
    return _fitting(found, lambda each, name: overlay(each, ident=name), ident)


def _fitting(found: Drawing, draw: Callable[[Drawing, str], str], ident: str) -> Markup:
    made = Markup(draw(found, ident))  # noqa: S704 - every text in it is escaped where it is made
    if not found.large or not made:
        return made
    small = Markup(draw(replace(found, large=False), f"{ident}-small"))  # noqa: S704
    return Markup('<div class="wide-only">{}</div><div class="narrow-only">{}</div>').format(made, small)


FILTERS: Mapping[str, Callable[..., object]] = {
    "count": count,
    "drawn": drawn,
    "duration": duration,
    "moment": moment,
    "overlaid": overlaid,
    "size": size,
    "skipped": skipped,
}
