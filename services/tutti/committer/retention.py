"""The reasons why retention keeps committed checkpoints; it may delete those without one.

The newest of every line, pinned ones, those that a line branches from and the open epoch's resume point always stay; so
does the newest at or before the last audit, which a job resumes from when the next audit fails, and the newest before
the decay of the learning rate, from which a job can be extended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class CheckpointAge:
    """A committed checkpoint, as far as retention looks at it."""

    line: int
    step: int
    name: str
    nbytes: int
    pinned: bool
    suspect: bool = False


def reasons_to_keep(
    committed: Iterable[CheckpointAge],
    *,
    keep_last: int,
    branch_points: Collection[tuple[int, int]],
    in_use: Mapping[str, Collection[str]],
    audited: Callable[[int], int],
    steady_until: int = 0,
) -> dict[CheckpointAge, list[str]]:
    """Return why each checkpoint stays, in order of line and step; one without a reason may be pruned.

    `branch_points` are (line, step); `in_use` are names, with the reasons. `keep_last` is at least 1.

    `audited(step)` is the step of the last audit up to `step`, 0 for none. `steady_until` is the last step before the
    learning rate decays.
    """
    if keep_last < 1:
        raise ValueError(f"keep_last is {keep_last}; expected at least 1: the last good one always stays")
    by_line: dict[int, list[CheckpointAge]] = {}
    for checkpoint in sorted(committed):
        by_line.setdefault(checkpoint.line, []).append(checkpoint)
    found: dict[CheckpointAge, list[str]] = {}
    for line, of_line in by_line.items():
        last, covered, steady = of_line[-keep_last:], _covered(of_line, audited), _steady(of_line, steady_until)
        newest = f"of the newest {keep_last} of line {line}" if keep_last > 1 else f"the newest of line {line}"
        for each in of_line:
            reasons = {
                newest: each in last,
                "pinned": each.pinned,
                "a line branches from it": (line, each.step) in branch_points,
                "the newest that a passed audit covers; the job resumes from it if the next one fails": each == covered,
                "the newest before the learning rate decays; the job can be extended from it": each == steady,
            }
            found[each] = [*(reason for reason, holds in reasons.items() if holds), *in_use.get(each.name, ())]
    return found


def _covered(of_line: list[CheckpointAge], audited: Callable[[int], int]) -> CheckpointAge | None:
    """The newest checkpoint of a line that a passed audit covers: the audits up to the newest one have passed."""
    intact = [each for each in of_line if not each.suspect]
    last = audited(intact[-1].step) if intact else 0
    return next((each for each in reversed(intact) if each.step <= last), None)


def _steady(of_line: list[CheckpointAge], until: int) -> CheckpointAge | None:
    """The newest checkpoint of a line at or before a step."""
    return next((each for each in reversed(of_line) if each.step <= until and not each.suspect), None)
