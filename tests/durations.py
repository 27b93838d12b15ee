"""How long each unit of the suite took, setups included: in build/durations.json after every run on this machine, and
in tests/durations.json for a machine that has no record yet.

Guarantees: a run of some tests of a unit does not replace the record of a run of more of them; a run of other tests
than the project's changes no record. `python -m tests.durations` copies the longest units into tests/durations.json.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.spreading import unit

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "build" / "durations.json"
COMMITTED = ROOT / "tests" / "durations.json"
LONG_SECONDS = 5.0
UNKNOWN = {"tests": 4.0, "": 1.0}
"""Seconds of a unit without a record: one below tests/, and one beside its code."""

Durations = dict[str, tuple[int, float]]
"""Name of a unit: how many tests ran, and their seconds together."""


def recorded(file: Path) -> Durations:
    """Return the record in a file; empty if it does not exist or cannot be read."""
    try:
        return {name: (int(count), float(seconds)) for name, (count, seconds) in json.loads(file.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def known() -> Durations:
    """Return the committed record, replaced by what this machine recorded."""
    return recorded(COMMITTED) | recorded(FILE)


def expected(name: str, among: Durations) -> float:
    """Return the seconds that a unit is expected to take."""
    found = among.get(name)
    return found[1] if found else UNKNOWN["tests" if name.startswith("tests/") else ""]


def expected_of_module(path: str, among: Durations) -> float:
    """Return the seconds that a module is expected to take, all its units together."""
    units = [name for name in among if name.partition("[")[0] == path]
    return sum(expected(name, among) for name in units or [path])


def merged(before: Durations, reports: Iterable[pytest.TestReport]) -> Durations:
    """Return the record after a run."""
    counts: dict[str, int] = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        name = unit(report.nodeid)
        counts[name] += report.when == "call"
        seconds[name] += report.duration
    ran = {name: (counts[name], round(seconds[name], 2)) for name in counts if counts[name]}
    return before | {name: one for name, one in ran.items() if one[0] >= before.get(name, (0, 0.0))[0]}


def record(reports: Iterable[pytest.TestReport], root: Path) -> None:
    """Add a run of tests below `root` to the record of this machine."""
    if root == ROOT:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(merged(recorded(FILE), reports), indent=1, sort_keys=True))


def commit() -> None:
    """Write the long units of this machine's record into tests/durations.json."""
    long = {name: (count, round(seconds)) for name, (count, seconds) in known().items() if seconds >= LONG_SECONDS}
    there = {name: one for name, one in long.items() if (ROOT / name.partition("[")[0]).exists()}
    lines = (f" {json.dumps(name)}: [{count}, {seconds}]" for name, (count, seconds) in sorted(there.items()))
    COMMITTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    commit()
