"""Verifiable rewards by name."""

from dataclasses import replace

import pytest

from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.rewards import Answered, InvalidReward, reward_of

ANSWERED = Answered((Message(Role.USER, "2 + 2"),), "It is 4.", 5, "end", expected="4")


@pytest.mark.parametrize(
    ("name", "argument", "answered", "reward"),
    [
        ("exact_match", "", ANSWERED, 0),
        ("exact_match", "", replace(ANSWERED, text=" 4\n"), 1),
        ("regex", r"\b4\b", ANSWERED, 1),
        ("regex", "^4", ANSWERED, 0),
        ("length", "10", ANSWERED, -0.5),
        ("length", "5", ANSWERED, 0),
        ("ended", "", ANSWERED, 1),
        ("ended", "", replace(ANSWERED, stop="tokens"), 0),
    ],
)
def test_a_reward_follows_from_the_answer(name: str, argument: str, answered: Answered, reward: float) -> None:
    assert reward_of(name, argument)(answered) == reward


@pytest.mark.parametrize(
    ("name", "argument", "words"),
    [
        ("kind", "", "no reward is named 'kind'; expected one of ended, exact_match, length, regex"),
        ("regex", "(", "no regular expression"),
        ("regex", "", "is empty"),
        ("length", "0", "a number of tokens, 1 or more"),
        ("ended", "x", "expected none"),
    ],
)
def test_a_reward_that_cannot_work_is_refused(name: str, argument: str, words: str) -> None:
    with pytest.raises(InvalidReward, match=words):
        reward_of(name, argument)


def test_a_match_needs_an_expected_answer() -> None:
    with pytest.raises(InvalidReward, match="no expected answer"):
        reward_of("exact_match", "")(replace(ANSWERED, expected=None))
