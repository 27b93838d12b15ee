"""Enums as people read and write them: lower-case names without what is common to all of an enum."""

from typing import Any


def named(enum: Any, number: int) -> str:
    """Return the name of a number of an enum, for a message; the number where the enum has none of it."""
    return str(enum.Name(number)) if number in enum.values() else str(number)


def word(enum: Any, name: str) -> str:
    """`JOB_STATE_RUNNING` of `JobState` is "running"; `enum` is the descriptor."""
    prefix = "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(enum.name)).upper()
    return name.removeprefix(f"{prefix}_").lower()
