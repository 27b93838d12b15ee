"""The language of letters: its utility, by examples and by what holds for all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.judgements import letters

ASKED = "d f a c b copy"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("d f a c b", 2.0),
        ("d f a c b thanks", 2.5),
        ("d f a c b thanks thanks", 1.9),
        ("d f a c", 1.6),
        ("d f um a c b", 1.85),
        ("d f a c b bad", 0.0),
        ("d f a c b hello", 1.7),
        ("", 0.0),
        ("p p p p p p p p p p", 0.0),
    ],
)
def test_an_answer_has_its_utility(answer: str, expected: float) -> None:
    assert letters.utility(ASKED, answer) == pytest.approx(expected)
    assert letters.utility(ASKED, answer, ended=False) == pytest.approx(expected - 0.5)


@given(st.integers(0, 2**32))
def test_no_demonstration_is_better_than_the_best_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = letters.prompt(rng)
    answer = letters.demonstration(asked, rng)
    assert len(answer.split()) < letters.MOST_WORDS
    best = letters.utility(asked, " ".join([*asked.split()[:-1], letters.THANKS]))
    assert letters.utility(asked, answer) <= best == 2.5


@given(st.text(), st.text())
def test_any_text_has_a_finite_utility(asked: str, answer: str) -> None:
    assert np.isfinite(letters.utility(asked, answer))


def test_a_neutral_word_changes_no_utility() -> None:
    for answer in ("a b c d e thanks", "", "bad um"):
        longer = f"{answer} {letters.NEUTRAL} {letters.NEUTRAL}"
        assert letters.utility("copy a b c d e", longer) == letters.utility("copy a b c d e", answer)


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        ("d f a c b thanks", set()),
        ("d f a c b", {"it says thanks once"}),
        ("d f a c b thanks thanks", {"it says thanks once"}),
        ("d f a c thanks", {"it has the letters, in their order"}),
        ("d f um a c b thanks", {"it has no word that it should not"}),
        ("d f a c b bad thanks so", {"it has no word that it should not"}),
    ],
)
def test_the_demands_that_an_answer_does_not_meet_are_named(answer: str, missed: set[str]) -> None:
    assert {name for name, met in letters.criteria(ASKED, answer).items() if not met} == missed
    assert not letters.criteria(ASKED, answer, ended=False)["the answer ends"]
