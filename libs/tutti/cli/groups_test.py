"""Lists: in an order in which people look for what they want."""

import pytest

from tutti.cli.groups import in_order
from tutti.cli.nouns import BY_PLURAL

T = "2026-01-01T00:00"


@pytest.mark.parametrize(
    ("noun", "rows"),
    [
        (
            "runs",
            [
                {"name": "runs/c", "started_at": f"{T}:00Z"},
                {"name": "runs/d", "started_at": f"{T}:00.5Z"},
                {"name": "runs/a", "started_at": f"{T}:01Z"},
                {"name": "runs/b", "started_at": None},
            ],
        ),
        ("datasets", [{"name": "datasets/a"}, {"name": "datasets/b"}]),
        ("checkpoints", [{"name": f"c/{step}", "job": "j", "line": 0, "step": step} for step in (9, 10)]),
    ],
)
def test_what_began_last_is_last(noun: str, rows: list[dict[str, object]]) -> None:
    assert in_order(BY_PLURAL[noun], rows[::-1]) == rows
