"""Habits that make judgements worth less: the same key over and over, attention that fades, haste, and judging without
reading. Pure.

Promises: for the first two, an annotator who judges independently from pair to pair is named in fewer than one case of
a hundred. Habits are shown to the owner of a campaign; they change no weight by themselves.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import sqrt
from statistics import median

RARE = 0.001
"""Runs that are less probable than this are no chance."""
LEAST_HALF = 20
"""Judgements in a half, below which two halves are not compared."""
FAR = 3.0
"""Standard errors between two halves that are no chance."""
LEAST_TIMED = 20
"""Judgements of an annotator, below which their times say nothing."""
READING = 60.0
"""The fastest reading, in characters a second: 700 words a minute."""
MICROSECONDS = 1e6
REST_SECONDS = 300.0
"""The longest time that counts as work on one judgement."""
HASTE = 0.25
"""The share of the others' time that is too little to read as they do."""


@dataclass(frozen=True)
class Run:
    """The same score, `length` times in a row."""

    score: Hashable
    length: int


@dataclass(frozen=True)
class Drift:
    """Shares of the first and of the second half in which an annotator agreed with the others; `half` is the number of
    judgements in each.
    """

    before: float
    after: float
    half: int


@dataclass(frozen=True)
class Haste:
    """Median times of a judgement in milliseconds: of an annotator, and of the median one of the others."""

    own: float
    others: float


def straight(scores: Sequence[Hashable], crowd: Mapping[Hashable, int]) -> Run | None:
    """Return the longest run of a score in order of arrival, None where it may be chance.

    `scores` are those that were displayed, so that the side of the better answer is drawn anew for each pair; `crowd`
    counts the scores of everybody else. The chance is at most n · p^length, where p is the crowd's share of the score;
    each score is counted once more than it occurred, so that no share is 0.
    """
    runs = Counter[Hashable]()
    length, last = 0, None
    for score in scores:
        length = length + 1 if length and score == last else 1
        last = score
        runs[score] = max(runs[score], length)
    kinds = set(crowd) | set(runs)
    total = sum(crowd.values()) + len(kinds)
    least: tuple[float, Run] | None = None
    for score, longest in runs.items():
        chance = len(scores) * ((crowd.get(score, 0) + 1) / total) ** longest
        if chance < RARE and (least is None or chance < least[0]):
            least = chance, Run(score, longest)
    return least[1] if least else None


def drift(agreed: Sequence[bool]) -> Drift | None:
    """Return how much less an annotator agrees with others in the second half, None where it may be chance.

    `agreed` is in order of arrival, for the pairs on which the others are not undecided. Two shares are compared by
    their pooled standard error.
    """
    half = len(agreed) // 2
    if half < LEAST_HALF:
        return None
    first, second = agreed[:half], agreed[-half:]
    before, after = sum(first) / half, sum(second) / half
    pooled = (before + after) / 2
    error = sqrt(2 * pooled * (1 - pooled) / half)
    return Drift(before, after, half) if error and (before - after) / error > FAR else None


def hasty(times: Mapping[str, Sequence[int]]) -> dict[str, Haste]:
    """The annotators who take at most a quarter of the time of the median one of the others.

    `times` are milliseconds by annotator; those with fewer than LEAST_TIMED are left out.
    """
    own = {key: float(median(each)) for key, each in times.items() if len(each) >= LEAST_TIMED}
    found = {}
    for key, mine in own.items():
        others = [each for other, each in own.items() if other != key]
        if others and mine <= HASTE * median(others):
            found[key] = Haste(mine, float(median(others)))
    return found


def reading_speed(arrived: Sequence[tuple[int, int]]) -> float | None:
    """Return the median of the characters a second that were read for a judgement, None if too few say anything.

    `arrived` has, in order, for each judgement its time of arrival in microseconds and the characters of its two
    answers; 0 for one that only took time, such as a skipped pair. Judgements that arrive together, as after a while
    without a network, share the time since those before them; the first to arrive have none, and say nothing.
    """
    speeds, before = list[float](), None
    for at, together in groupby(arrived, key=lambda each: each[0]):
        read = [characters for _, characters in together if characters]
        if before is not None:
            speeds += [sum(read) * MICROSECONDS / (at - before)] * len(read)
        before = at
    return float(median(speeds)) if len(speeds) >= LEAST_TIMED else None


def unread(speed: float | None) -> str:
    """A speed above READING, as a sentence without its subject; "" for slower ones, and for None."""
    if speed is None or speed <= READING:
        return ""
    return f"judges {speed:.0f} characters a second, and nobody reads more than {READING:.0f}: no completion code"


def worked_seconds(arrived: Sequence[int]) -> float:
    """Return the time between judgements: at most REST_SECONDS for each, and nothing for the first one.

    `arrived` are the times at which they arrived, in order and in microseconds.
    """
    return sum(min((after - at) / MICROSECONDS, REST_SECONDS) for at, after in pairwise(arrived))
