"""Verifiable rewards: named, pure functions of an answer, the prompt, and the answer that is known to be right.

Promises: a reward follows from its arguments alone, the same on every machine. Functions are found by name, so that a
recipe records them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tutti.corpus.conversations.conversations import Messages
from tutti.records.errors import CorpusError


class InvalidReward(CorpusError):
    """No reward has this name, its argument cannot work, or it cannot judge an answer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of a policy. `expected` is the answer that is known to be right, where the prompt came with one."""

    prompt: Messages
    text: str
    tokens: int
    stop: str
    expected: str | None = None


Reward = Callable[[Answered], float]


def exact_match(argument: str) -> Reward:
    """1 where the answer is the expected one, apart from white space at its ends; else 0."""
    _require_none("exact_match", argument)

    def reward(answered: Answered) -> float:
        if answered.expected is None:
            raise InvalidReward("exact_match: the prompt has no expected answer; end its conversation with one")
        return float(answered.text.strip() == answered.expected.strip())

    return reward


def matches(argument: str) -> Reward:
    """1 where the regular expression matches somewhere in the answer; else 0."""
    try:
        pattern = re.compile(argument)
    except re.error as error:
        raise InvalidReward(f"regex: {argument!r} is no regular expression: {error}") from error
    if not argument:
        raise InvalidReward("regex: its argument is empty; expected a regular expression")
    return lambda answered: float(pattern.search(answered.text) is not None)


def length(argument: str) -> Reward:
    """Minus the distance of the number of tokens from the argument, as a share of it."""
    if not argument.isdigit() or int(argument) == 0:
        raise InvalidReward(f"length: its argument is {argument!r}; expected a number of tokens, 1 or more")
    wanted = int(argument)
    return lambda answered: -abs(answered.tokens - wanted) / wanted


def ended(argument: str) -> Reward:
    """1 where the model ended the answer by itself; else 0."""
    _require_none("ended", argument)
    return lambda answered: float(answered.stop == "end")


FUNCTIONS: Mapping[str, Callable[[str], Reward]] = {
    "ended": ended,
    "exact_match": exact_match,
    "length": length,
    "regex": matches,
}
"""By name; each takes the argument that a recipe gives it, "" for none."""


def reward_of(name: str, argument: str) -> Reward:
    """Raises InvalidReward."""
    if name not in FUNCTIONS:
        raise InvalidReward(f"no reward is named {name!r}; expected one of {', '.join(sorted(FUNCTIONS))}")
    return FUNCTIONS[name](argument)


def _require_none(name: str, argument: str) -> None:
    if argument:
        raise InvalidReward(f"{name}: its argument is {argument!r}; expected none")
