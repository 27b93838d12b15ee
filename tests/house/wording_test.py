"""Denied phrases are found where people read them, and the allowance for them can only fall."""

from collections import Counter

import pytest
from tools.wording import UNDOCUMENTED, compared, denied, undocumented

SOURCE = '''
"""Patience with somebody. What is seen is kept."""

import logging

log = logging.getLogger(__name__)
NAME = "somebody"  # a value, which is not read


def ask(value: int) -> None:
    """Return what was given; `for who` is gone."""
    log.warning("it is told by %s", "whom")
    if value:
        raise ValueError(f"{value} lies elsewhere; expected a value that is to be kept")
    option(help="asked in vain")
'''


def test_phrases_are_found_in_docstrings_errors_logs_and_help() -> None:
    found = {(use.name, use.place.partition(":")[2]) for use in denied(SOURCE, "a.py")}
    assert found == {
        ("a person for a process", "2"),
        ("a sentence that begins with What, Who, Whether or How", "2"),
        ("who or what as a noun", "11"),
        ("tells, told", "12"),
        ("stands, lies", "14"),
        ("is to be", "14"),
        ("in vain", "15"),
    }


@pytest.mark.parametrize(
    ("count", "allowed", "complaints"), [(3, 3, 0), (4, 3, 1), (2, 3, 1), (0, 0, 0), (1, 0, 1), (0, 2, 1)]
)
def test_the_allowance_is_the_count_and_can_only_fall(count: int, allowed: int, complaints: int) -> None:
    found = compared(Counter({"in vain": count}), {"in vain": allowed} if allowed else {})
    assert len(found) == complaints


def test_a_name_that_another_room_imports_needs_a_docstring() -> None:
    sources = {
        "tutti.wood.plank": "def saw() -> None: ...\ndef plane() -> None:\n    'Plane it.'\ndef glue() -> None: ...",
        "tutti.wood.chair": "from tutti.wood.plank import saw",
        "tutti.house.door": "from tutti.wood.plank import glue, plane",
    }
    assert [(use.name, use.text) for use in undocumented(sources)] == [(UNDOCUMENTED, "glue")]
