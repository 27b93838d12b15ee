"""Spikes that are planted on curves of our own trainings: how many are found, and how many steps are one wrongly.

The curves are of eight small trainings with 10,400 steps in which nothing went wrong, and which were not used to choose
the limits. With --quick they are those that tests read, which were recorded once; without it they are recorded again,
on the text of the repository as it is now, which takes about four minutes of CPU.

A planted spike lasts 3 to 20 steps, in which the loss is higher by 0.3 to 2 times the median of the steps before, noise
and all. It is found if a spike shares a step with it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from benchmarks.curves import HELD_OUT, Curve, record
from benchmarks.program import ROOT, main
from benchmarks.table import Row, at_least, at_most
from tutti.model.spikes import FEWEST, WINDOW, Spike, Watch

RECORDED = ROOT / "tests" / "numerics" / "curves" / "held-out.npz"
SPIKES, SEED = 400, 1
LENGTHS, HEIGHTS = (3, 20), (1.3, 3.0)
EARLIEST = FEWEST + LENGTHS[0]
GOAL_FOUND, GOAL_WRONG = at_least(95), at_most(0)
Points = list[tuple[float, float]]


def recorded(path: Path = RECORDED) -> dict[str, Points]:
    """The curves of a file, by name: loss and gradient norm of each step."""
    with np.load(path) as curves:
        return {name: points(curves[name]) for name in curves}


def points(curve: Curve) -> Points:
    """A curve as pairs of floats."""
    return [(float(loss), float(norm)) for loss, norm in curve]


def found(curve: Points) -> list[Spike]:
    """The spikes of a curve, the one that its last step is in included."""
    watch, spikes = Watch(), list[Spike]()
    for step, (loss, norm) in enumerate(curve, start=1):
        watch, ended = watch.after(step, loss, norm)
        spikes += [ended] if ended else []
    last = watch.until(len(curve))
    return [*spikes, last] if last else spikes


def planted(curve: Points, random: Random) -> tuple[Points, range]:
    """A part of the curve with a spike of the loss, and the steps of the spike in it."""
    length, height = random.randint(*LENGTHS), random.uniform(*HEIGHTS)
    first = random.randint(EARLIEST, len(curve) - length)
    before = median(loss for loss, _ in curve[max(first - WINDOW, 0) : first])
    begin, end = max(first - 2 * WINDOW, 0), first + length
    higher = [(loss + (height - 1) * before, norm) for loss, norm in curve[first:end]]
    part = [*curve[begin:first], *higher, *curve[end : end + WINDOW]]
    return part, range(first - begin + 1, end - begin + 1)


def count(curves: Mapping[str, Points], spikes: int, seed: int) -> int:
    """Plant a number of spikes, each alone on one of the curves, and return how many of them are found."""
    random, names = Random(seed), sorted(curves)
    trials = [planted(curves[random.choice(names)], random) for _ in range(spikes)]
    return sum(_shares(found(curve), steps) for curve, steps in trials)


def _shares(spikes: Sequence[Spike], steps: range) -> bool:
    return any(spike.first <= steps[-1] and spike.last >= steps[0] for spike in spikes)


def measure(quick: bool) -> list[Row]:
    """Found and wrong ones, on all held-out curves."""
    curves = recorded() if quick else {name: points(curve) for name, curve in record(HELD_OUT).items()}
    spikes = SPIKES // 10 if quick else SPIKES
    caught, steps = count(curves, spikes, SEED), sum(map(len, curves.values()))
    wrong = sum(len(found(curve)) for curve in curves.values())
    share = 100 * caught / spikes
    note = f"{caught} of {spikes} of {HEIGHTS[0]:g} to {HEIGHTS[1]:g} medians over {LENGTHS[0]} to {LENGTHS[1]} steps"
    return [
        Row("spikes, found", "%", share, goal=GOAL_FOUND, note=note),
        Row(
            "spikes, wrong", "", wrong, goal=GOAL_WRONG, note=f"in {steps:,} steps of {len(curves)} curves without one"
        ),
    ]


if __name__ == "__main__":
    main("spikes", __doc__, measure)
