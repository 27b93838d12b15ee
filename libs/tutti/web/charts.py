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
"""Width of a large chart; a narrow screen shows a small one instead."""
SMOOTHED_FROM, SPANS = 40, 100
"""Points from which on a large chart has a smoothed line, over about n / SPANS of n points, ten at least."""
LEAST_POWER = -300
"""The least power of ten of a tick: smaller numbers lose digits, or are 0."""
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


@dataclass(frozen=True)
class Frame:
    """The axes of a chart: the pixels of a place and of a value, and the lines and numbers behind the curves."""

    width: int
    height: int
    first: float
    last: float
    ticks: Sequence[float]
    low: float
    high: float
    logarithmic: bool
    across: str

    @classmethod
    def around(cls, places: Sequence[float], values: Sequence[float], like: Series) -> "Frame":
        """The axes for some places and finite values, at least one of each, in a chart like this series."""
        first = min(places) if like.across == STEP else min(0.0, *places)
        last = max(places) if max(places) > first else first + 1
        low, high = min(values), max(values)
        ticks = _powers(low, high) if like.logarithmic else nice_ticks(low, high, 5)
        scale = math.log10 if like.logarithmic else float
        low, high = scale(min(ticks[0], low)), scale(max(ticks[-1], high))
        width, height = (LARGE_WIDTH, LARGE_HEIGHT) if like.large else (WIDTH, HEIGHT)
        return cls(width, height, first, last, ticks, low, high, like.logarithmic, like.across)

    def x(self, place: float) -> float:
        """The pixel of a place on the horizontal axis."""
        return LEFT + (self.width - LEFT - RIGHT) * (place - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        """The pixel of a value; NaN for one that cannot be drawn."""
        if not fits(value, logarithmic=self.logarithmic):
            return math.nan
        scaled = math.log10(value) if self.logarithmic else value
        return (
            self.height - BOTTOM - (self.height - TOP - BOTTOM) * (scaled - self.low) / ((self.high - self.low) or 1.0)
        )

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        """The path of a line, broken where a value cannot be drawn."""
        return _path([(self.x(place), self.y(value)) for place, value in points])

    def grid(self) -> list[str]:
        """The markup of the lines and numbers of both axes."""
        foot, end = self.height - BOTTOM, self.width - RIGHT
        parts = [
            f'<line class="grid" x1="{LEFT}" x2="{end}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{self.y(tick) + 4.5:.1f}" text-anchor="end">{_number(tick)}</text>'
            for tick in self.ticks
        ]
        parts += [
            f'<text class="tick" x="{self.x(tick):.1f}" y="{foot + 18}" text-anchor="middle">{self._label(tick)}</text>'
            for tick in nice_ticks(self.first, self.last, 8 if self.width == LARGE_WIDTH else 4)
            if self.first <= tick <= self.last and (self.across != STEP or tick == round(tick))
        ]
        middle = f'x="{(LEFT + end) / 2:.0f}" y="{self.height - 4}" text-anchor="middle"'
        return [*parts, f'<text class="tick" {middle}>{escape(self.across)}</text>']

    def _label(self, place: float) -> str:
        return f"{place:,.0f}" if self.across == STEP else _number(place)


def picture(frame: Frame, parts: Sequence[str], *, ident: str, title: str, words: str, size: str = "") -> str:
    """A chart of these parts as SVG, described by `words`; `ident` makes the names inside it its own."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg"{size} viewBox="0 0 {frame.width} {frame.height}" role="img"'
    head += f' aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{escape(title)}</title>'
    head += f'<desc id="{ident}-d">{escape(words)}</desc>'
    return f"{head}{''.join(parts)}</svg>"


def chart(series: Series, *, ident: str, standalone: bool = False) -> str:
    """One chart; "" where there is no finite number to draw. `ident` makes the names inside it its own."""
    drawn = [value for _, value in (*series.points, *series.dots) if fits(value, logarithmic=series.logarithmic)]
    if not drawn:
        return ""
    frame = Frame.around([*(place for place, _ in (*series.points, *series.dots)), *series.marks], drawn, series)
    parts, foot = frame.grid(), frame.height - BOTTOM
    parts += [
        f'<line class="mark" x1="{frame.x(step):.1f}" x2="{frame.x(step):.1f}" y1="{foot}" y2="{foot - 9}"/>'
        for step in series.marks
    ]
    smooth = smoothed(series.points) if series.large else []
    parts.append(f'<path class="{"line faint" if smooth else "line"}" d="{frame.path(series.points)}"/>')
    parts += [f'<path class="smooth" d="{frame.path(smooth)}"/>'] if smooth else []
    parts += [f'<path class="held" d="{frame.path(series.dots)}"/>'] if series.large and len(series.dots) > 1 else []
    parts += [
        f'<circle class="dot" cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="3.2"/>'
        for step, value in series.dots
        if fits(value, logarithmic=series.logarithmic)
    ]
    scale_up = 1 if series.large else 2
    size = f' width="{scale_up * frame.width}" height="{scale_up * frame.height}"' if standalone else ""
    style = f"<style>{STANDALONE_STYLE}</style>" if standalone else ""
    return picture(frame, [style, *parts], ident=ident, title=series.title, words=describe(series), size=size)


def fits(value: float, *, logarithmic: bool) -> bool:
    """True if a value can be drawn."""
    return math.isfinite(value) and (value > 0 or not logarithmic)


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
    span = max((high - low) or abs(high) or 1.0, 10.0**LEAST_POWER)
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    begin, end = math.floor(low / width), math.ceil(high / width)
    return [width * at for at in range(begin, max(end, begin + 1) + 1)]


def _powers(low: float, high: float) -> list[float]:
    begin, end = (max(LEAST_POWER, each) for each in (math.floor(math.log10(low)), math.ceil(math.log10(high))))
    if end - begin > 1:
        return [10.0**at for at in range(begin, end + 1)]
    found = [factor * 10.0**at for at in range(begin, end + 1) for factor in (1, 2, 5)]
    below = max((each for each in found if each <= low), default=found[0])
    above = min((each for each in found if each >= high), default=found[-1])
    return [each for each in found if below <= each <= above] or [below]


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
