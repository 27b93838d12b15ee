"""What the suite says at its end: the scale of every campaign, the contract suites on every adapter, the time."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import pytest

ADAPTERS = ("embedded", "kafka", "postgres", "s3", "cached")
LONGEST = 15
SCALE = re.compile(r"^scale: (\d+) \(make test (\d+), make soak (\d+)\)$", re.MULTILINE)

Scales = Mapping[str, tuple[str, ...]]
"""Campaign: the number of this run, of `make test`, of `make soak`."""
Outcomes = Mapping[str, Mapping[str, str]]
"""Test, adapter: passed, failed or skipped."""


def scales(reports: Iterable[pytest.TestReport]) -> Scales:
    """What tests printed by `scale`, whichever of their parameters did."""
    return {
        report.nodeid.split("[")[0].split("@")[0] + (f" ({number + 1})" if number else ""): found
        for report in reports
        for number, found in enumerate(SCALE.findall(report.capstdout))
    }


def scales_table(found: Scales) -> list[str]:
    rows = [("this run", "make test", "make soak", "campaign"), *((*found[name], name) for name in sorted(found))]
    return ["{:>10} {:>10} {:>10}  {}".format(*row) for row in rows] if found else []


def adapters(reports: Iterable[pytest.TestReport]) -> Outcomes:
    """What became of each contract test on each adapter; a failure in any phase is one."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for report in reports:
        test, bracket, parameters = report.nodeid.partition("[")
        parts = parameters.rpartition("]")[0].split("-")
        if bracket and test.startswith("tests/contract/"):
            rest = "-".join(part for part in parts if part not in ADAPTERS)
            row = test.removeprefix("tests/contract/") + (f"[{rest}]" if rest else "")
            for adapter in set(parts) & set(ADAPTERS):
                if found[row].get(adapter) != "failed":
                    found[row][adapter] = report.outcome
    return found


def adapters_table(found: Outcomes) -> list[str]:
    if not found:
        return []
    lines = ["".join(f"{each:<10}" for each in ADAPTERS) + "test"]
    lines += ["".join(f"{cells.get(each, '-'):<10}" for each in ADAPTERS) + row for row, cells in sorted(found.items())]
    for adapter in ADAPTERS:
        counts = Counter(cells[adapter] for cells in found.values() if adapter in cells)
        if counts:
            lines.append(f"{adapter}: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in sorted(counts)))
    return lines


def longest_table(seconds: Mapping[str, float]) -> list[str]:
    """Lines with the longest units and the time of all, in seconds of a worker."""
    rows = sorted(seconds.items(), key=lambda row: -row[1])
    if len(rows) <= LONGEST:
        return []
    rest = sum(second for _, second in rows[LONGEST:])
    lines = [f"{second:8.1f} s  {name}" for name, second in rows[:LONGEST]]
    return [*lines, f"{rest:8.1f} s  {len(rows) - LONGEST} others", f"{sum(seconds.values()):8.1f} s  together"]
