"""The qualification: pairs whose better answer is known, answered before the first ordinary pair. Pure.

Promises: the verdict follows from the answers in their order.
"""

from collections.abc import Sequence
from enum import Enum, StrEnum, auto

from tutti.annotation.judging.pairs import Better
from tutti.corpus.conversations.judgementset import BOTH_BAD


class Answered(Enum):
    """The result of the answers so far."""

    GOES_ON = auto()
    QUALIFIED = auto()
    FAILED = auto()


class Displayed(StrEnum):
    """The better answer of a pair, by its place on a wide page."""

    LEFT = auto()
    RIGHT = auto()
    NEITHER = auto()


def is_right(better: str, score: int | str | None, *, flipped: bool) -> bool:
    """True if a score as displayed names the better answer of a pair; both bad is right where neither is better, and
    skipped pairs are wrong.
    """
    if not isinstance(score, int):
        return score == BOTH_BAD and better == Better.EQUAL
    own = -score if flipped else score
    if better == Better.EQUAL:
        return own == 0
    return own < 0 if better == Better.FIRST else own > 0


def verdict(right: Sequence[bool], *, pairs: int, right_needed: int, left: int) -> Answered:
    """Qualified once so many of the last `pairs` answers are right, failed once no pair is left."""
    if len(right) >= pairs and sum(right[-pairs:]) >= right_needed:
        return Answered.QUALIFIED
    return Answered.GOES_ON if left else Answered.FAILED


def displayed(better: str, *, flipped: bool) -> Displayed:
    """The better answer of a pair by the place where it was displayed."""
    if better == Better.EQUAL:
        return Displayed.NEITHER
    return Displayed.LEFT if (better == Better.FIRST) != flipped else Displayed.RIGHT
