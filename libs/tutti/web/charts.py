"""Line charts as SVG: drawn with `currentColor` and classes, so that the page's style, light or dark, is theirs too.

Pure: numbers in, markup out. What is not a finite number is no point of a line; a line is broken there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# On the narrowest screen that a report is for, a chart is 292 pixels wide: letters of LETTERS are 12 pixels high there.
WIDTH, HEIGHT, LETTERS = 320, 214, 13.5
LARGE_WIDTH, LARGE_HEIGHT = 760, 340
"""Width of a large chart, which a narrow screen scrolls."""
SMOOTHED_FROM, SPANS = 40, 100
"""Points from which on a large chart has a smoothed line, over about n / SPANS of n points, ten at least."""
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 14, 42
STEP = "step"
STANDALONE_STYLE = (
    f"svg{{color:#1d2430;background:#fff;font:{LETTERS}px system-ui,sans-serif}}"
    ".grid{stroke:currentColor;stroke-opacity:.15}.tick{fill:currentColor;fill-opacity:.75}"
    ".line{fill:none;stroke:#2f6f8f;stroke-width:1.6;stroke-linejoin:round}"
    ".faint{stroke-opacity:.3;stroke-width:1}.smooth{fill:none;stroke:#2f6f8f;stroke-width:2.2;stroke-linejoin:round}"
    ".held{fill:none;stroke:#9a5b13;stroke-width:1.6;stroke-dasharray:5 3}"
    ".dot{fill:#fff;stroke:#9a5b13;stroke-width:1.6}.mark{stroke:#a4343a;stroke-width:1.4}"
)


@dataclass(frozen=True)
class Series:
    """`points`: (step, value) in order of steps, drawn as a line; `dots`: the same, drawn as rings; `marks`: steps.

    A `large` chart has a smoothed line, and a line from ring to ring. `across` is the unit of the horizontal axis. If
    it is not a step, the axis begins at 0, and the line joins the points in the order in which they are given.
    """

    title: str
    unit: str
    points: Sequence[tuple[float, float]]
    dots: Sequence[tuple[float, float]] = ()
    marks: Sequence[float] = ()
    logarithmic: bool = False
    large: bool = False
    across: str = STEP


def smoothed(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the exponential moving average of points, corrected for its start; none where they are few.

    What is not finite is passed over.
    """
    finite = [each for each in points if math.isfinite(each[1])]
    if len(finite) < SMOOTHED_FROM:
        return []
    keep = 1 - SPANS / (len(finite) + SPANS)
    found, mean, weight = [], 0.0, 0.0
    for step, value in finite:
        mean, weight = keep * mean + (1 - keep) * value, keep * weight + (1 - keep)
        found.append((step, mean / weight))
    return found


def titled(name: str) -> str:
    """The name of a metric as a title: `reward_mean` as Reward mean, an abbreviation such as `kl` as KL."""
    words = name.replace("_", " ")
    return words.upper() if len(words) < 4 else words.capitalize()


def chart(series: Series, *, ident: str, standalone: bool = False) -> str:
    """One chart; "" where there is no finite number to draw. `ident` makes the names inside it its own."""
    drawn = [value for _, value in (*series.points, *series.dots) if _fits(value, series)]
    if not drawn:
        return ""
    places = [*(place for place, _ in (*series.points, *series.dots)), *series.marks]
    by_step = series.across == STEP
    first = min(places) if by_step else min(0.0, *places)
    last = max(places) if max(places) > first else first + 1
    ticks = _powers(min(drawn), max(drawn)) if series.logarithmic else nice_ticks(min(drawn), max(drawn), 5)
    scale = math.log10 if series.logarithmic else float
    low, high = scale(min(ticks[0], *drawn)), scale(max(ticks[-1], *drawn))

    width, height = (LARGE_WIDTH, LARGE_HEIGHT) if series.large else (WIDTH, HEIGHT)

    def x(step: float) -> float:
        return LEFT + (width - LEFT - RIGHT) * (step - first) / (last - first)

    def y(value: float) -> float:
        return height - BOTTOM - (height - TOP - BOTTOM) * (scale(value) - low) / ((high - low) or 1.0)

    def label(place: float) -> str:
        return f"{place:,.0f}" if by_step else _number(place)

    parts = [
        f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{y(tick) + 4.5:.1f}" text-anchor="end">{_number(tick)}</text>'
        for tick in ticks
    ]
    parts += [
        f'<text class="tick" x="{x(tick):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{label(tick)}</text>'
        for tick in nice_ticks(first, last, 8 if series.large else 4)
        if first <= tick <= last
    ]
    parts.append(
        f'<text class="tick" x="{(LEFT + width - RIGHT) / 2:.0f}" y="{height - 4}" text-anchor="middle">'
        f"{escape(series.across)}</text>"
    )
    parts += [
        f'<line class="mark" x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{height - BOTTOM}" y2="{height - BOTTOM - 9}"/>'
        for step in series.marks
    ]

    def path(points: Sequence[tuple[float, float]]) -> str:
        return _path([(x(step), y(value) if _fits(value, series) else math.nan) for step, value in points])

    smooth = smoothed(series.points) if series.large else []
    parts.append(f'<path class="{"line faint" if smooth else "line"}" d="{path(series.points)}"/>')
    parts += [f'<path class="smooth" d="{path(smooth)}"/>'] if smooth else []
    parts += [f'<path class="held" d="{path(series.dots)}"/>'] if series.large and len(series.dots) > 1 else []
    parts += [
        f'<circle class="dot" cx="{x(step):.1f}" cy="{y(value):.1f}" r="3.2"/>'
        for step, value in series.dots
        if _fits(value, series)
    ]
    words, scale_up = describe(series), 1 if series.large else 2
    size = f' width="{scale_up * width}" height="{scale_up * height}"' if standalone else ""
    head = f'<svg xmlns="http://www.w3.org/2000/svg"{size} viewBox="0 0 {width} {height}" role="img"'
    head += f' aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{escape(series.title)}</title>'
    head += f'<desc id="{ident}-d">{escape(words)}</desc>'
    style = f"<style>{STANDALONE_STYLE}</style>" if standalone else ""
    return f"{head}{style}{''.join(parts)}</svg>"


def describe(series: Series) -> str:
    """A text that describes the chart."""
    told = [(step, value) for step, value in series.points or series.dots if math.isfinite(value)]
    if not told:
        return "No finite number."
    (first, begin), (last, end) = told[0], told[-1]
    place, lowest = min(told, key=lambda each: each[1])

    def at(place: float) -> str:
        return f"step {place:,}" if series.across == STEP else f"{_number(place)} {series.across}"

    return (
        f"{series.unit}: {_number(begin)} at {at(first)}, {_number(end)} at {at(last)}, lowest {_number(lowest)} at "
        f"{at(place)}."
    )


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers, about `count` of them, that cover [low, high]."""
    span = (high - low) or abs(high) or 1.0
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    begin, end = math.floor(low / width), math.ceil(high / width)
    return [width * at for at in range(begin, max(end, begin + 1) + 1)]


def _powers(low: float, high: float) -> list[float]:
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    if end - begin > 1:
        return [10.0**at for at in range(begin, end + 1)]
    found = [factor * 10.0**at for at in range(begin, end + 1) for factor in (1, 2, 5)]
    below = max((each for each in found if each <= low), default=found[0])
    above = min((each for each in found if each >= high), default=found[-1])
    return [each for each in found if below <= each <= above] or [below]


def _fits(value: float, series: Series) -> bool:
    return math.isfinite(value) and (value > 0 or not series.logarithmic)


def _path(points: Sequence[tuple[float, float]]) -> str:
    parts, pen = [], "M"
    for x, y in points:
        if math.isfinite(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _number(value: float) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
