"""How long each test module took on this machine, kept in build/durations.json after every run of the suite.

Promises: a run of some tests of a module does not replace the record of a run of more of them.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[1] / "build" / "durations.json"
UNKNOWN = {"tests": 20.0, "": 2.0}
"""Seconds of a module that never ran here: among those of several parts, and beside its code."""

Durations = dict[str, tuple[int, float]]
"""Path of a module: how many tests ran, and their seconds together."""


def recorded() -> Durations:
    """What earlier runs recorded; empty before the first, and when the file cannot be read."""
    try:
        return {path: (int(count), float(seconds)) for path, (count, seconds) in json.loads(FILE.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def expected(path: str) -> float:
    """Seconds that a module will take."""
    known = recorded().get(path)
    return known[1] if known else UNKNOWN["tests" if path.startswith("tests/") else ""]


def merged(before: Durations, reports: Iterable[pytest.TestReport]) -> Durations:
    """The record after a run."""
    counts: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        path = report.nodeid.partition("::")[0]
        counts[path] += report.when == "call"
        seconds[path] += report.duration
    ran = {path: (counts[path], round(seconds[path], 2)) for path in counts if counts[path]}
    return before | {path: one for path, one in ran.items() if one[0] >= before.get(path, (0, 0.0))[0]}


def record(reports: Iterable[pytest.TestReport]) -> None:
    """Add a run to the record."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(merged(recorded(), reports), indent=1, sort_keys=True))
