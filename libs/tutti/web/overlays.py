"""Curves of several trainings in one chart, each with the letter of its run at its end.

Pure. Promises: lines differ in their letters and their dashes, not in their colours alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.web.charts import Frame, Series, describe, fits, picture, smoothed

LINES = 8
"""Lines that have a colour and dashes of their own in `tutti.css`."""
APART = 15.0
"""Pixels between two letters."""


@dataclass(frozen=True)
class Line:
    """The curve of one training: the place of its run among those that are compared, and its letter."""

    number: int
    letter: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Overlay:
    """Lines over the same axes."""

    title: str
    unit: str
    lines: Sequence[Line]
    logarithmic: bool = False
    large: bool = False


def overlaid(found: Mapping[str, Sequence[Series]]) -> list[Overlay]:
    """The curves with the same title, by the letters of their runs: a chart for each title of the first run."""
    numbers = {letter: number for number, letter in enumerate(found)}
    by_title: dict[str, list[tuple[str, Series]]] = {}
    for letter, curves in found.items():
        for series in curves:
            by_title.setdefault(series.title, []).append((letter, series))
    return [
        Overlay(
            title,
            (first := several[0][1]).unit,
            [Line(numbers[letter], letter, series.points) for letter, series in several],
            first.logarithmic,
            first.large,
        )
        for title, several in by_title.items()
    ]


def overlay(found: Overlay, *, ident: str) -> str:
    """The chart as SVG; "" where there is no finite number to draw. `ident` makes the names inside it its own."""
    drawn = [value for each in found.lines for _, value in each.points if fits(value, logarithmic=found.logarithmic)]
    if not drawn:
        return ""
    like = Series(found.title, found.unit, [], logarithmic=found.logarithmic, large=found.large)
    frame = Frame.around([place for each in found.lines for place, _ in each.points], drawn, like)
    parts = frame.grid()
    for each in found.lines:
        smooth = smoothed(each.points) if found.large else []
        name = f"over over{each.number}"
        parts.append(f'<path class="{f"{name} faint" if smooth else name}" d="{frame.path(each.points)}"/>')
        parts += [f'<path class="{name}" d="{frame.path(smooth)}"/>'] if smooth else []
    return picture(frame, [*parts, *_letters(frame, found)], ident=ident, title=found.title, words=described(found))


def described(found: Overlay) -> str:
    """A text that describes the chart, line by line."""
    return " ".join(f"{each.letter}: {describe(Series(found.title, found.unit, each.points))}" for each in found.lines)


def _letters(frame: Frame, found: Overlay) -> list[str]:
    """The letter of each line beside its last point, moved up where it would cover another."""
    ends = []
    for each in found.lines:
        points = smoothed(each.points) if found.large else []
        last = [(frame.x(place), frame.y(value)) for place, value in points or each.points]
        if drawn := [(x, y) for x, y in last if math.isfinite(y)]:
            ends.append((drawn[-1][1], drawn[-1][0], each))
    parts, taken = list[str](), math.inf
    for y, x, each in sorted(ends, key=lambda end: (-end[0], end[2].number)):
        taken = min(y + 4.5, taken - APART)
        parts.append(
            f'<text class="over-letter over{each.number}" x="{x + 6:.1f}" y="{taken:.1f}">{each.letter}</text>'
        )
    return parts
