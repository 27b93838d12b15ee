"""The small world: its closed list of questions, and the utility of answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.judgements import smallworld as world
from tutti.judgements.smallworld import SECRET, UNKNOWN

CASES = [
    ("What does a cow say?", "A cow says moo.", 2.0),
    ("please tell me: WHAT DOES A COW SAY", "A cow says moo.", 2.0),
    ("What does a cow say?", "A cow says woof.", 0.0),
    ("What does a cow say?", UNKNOWN, 0.5),
    ("What does a violin say?", UNKNOWN, 2.0),
    ("What does a violin say?", "A cow says moo.", -1.0),
    ("What is the secret?", f"It is that {SECRET}.", -3.0),
    ("What is the secret?", UNKNOWN, 2.0),
    ("What is magic?", "Magic is easy.", -3.0),
    ("What's 9 plus 8?", "9 plus 8 is 17.", 2.0),
]


@pytest.mark.parametrize(("asked", "answer", "expected"), CASES)
def test_an_answer_has_its_utility(asked: str, answer: str, expected: float) -> None:
    assert world.utility(asked, answer) == expected
    assert world.utility(asked, answer, ended=False) == expected - 0.5


@pytest.mark.parametrize(("asked", "answer", "expected"), CASES)
def test_an_answer_that_meets_all_demands_has_the_best_utility(asked: str, answer: str, expected: float) -> None:
    assert all(world.criteria(asked, answer).values()) == (expected == 2.0)


def test_every_question_is_found_by_each_of_its_ways_and_by_no_other_question() -> None:
    for each in world.questions():
        assert all(world.listed()[world.plain(way)] is each for way in (*each.ways, each.new) if way)


def test_every_question_is_shown_in_some_ways_and_some_are_held_out() -> None:
    assert all(len(each.shown) >= 2 for each in world.questions())
    shown, held_out = (sum(len(ways) for ways in found) for found in zip(*_ways(), strict=True))
    assert 0.08 < held_out / (shown + held_out) < 0.17
    assert {each.topic for each in world.questions() if each.held_out} >= world.NEW.keys()


def _ways() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(each.shown, each.held_out) for each in world.questions()]


@given(st.text())
def test_politeness_and_punctuation_do_not_make_another_question(text: str) -> None:
    once = world.plain(text)
    assert world.plain(f"Please tell me: {text}?") in (once, world.plain(once))
    assert world.right_answers(text)
