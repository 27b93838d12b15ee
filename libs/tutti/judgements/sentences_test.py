"""The language of sentences: its utility and its demands, by examples and by what holds for all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.judgements import sentences
from tutti.judgements.languages import LANGUAGES

ASKED = sentences.prompt("queue", 7)
BEST = "Return the number of items in queue."
WORDS = ["queue", "number", "items", "path"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (BEST, 2.5),
        ("Return the number of items in Queue.", 2.5),
        ("Return the number of items in path.", 1.5),
        ("Return the number of items in the queue.", 2.25),
        ("Return items in queue.", 1.75),
        ("return the number of items in queue.", 2.0),
        ("Return the number of items in queue", 2.0),
        ("Return the number. Of items in queue.", 2.0),
        ("Return the number number of items queue.", 2.2),
        ("Queue queue queue queue queue queue queue.", 0.7),
        ("", 0.0),
    ],
)
def test_an_answer_has_its_utility(answer: str, expected: float) -> None:
    assert sentences.utility(ASKED, answer) == pytest.approx(expected)
    assert sentences.utility(ASKED, answer, ended=False) == pytest.approx(expected - 0.5)


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        (BEST, set()),
        ("Return the number of items in path.", {"it uses the word"}),
        ("Return number of items in queue.", {"it has exactly the length"}),
        (
            "Return items in queue.",
            {"it has exactly the length", "it has the length, give or take a word"},
        ),
        ("return the number of items in queue.", {"it is one sentence"}),
        ("Return the items of items in queue.", {"it repeats no long word"}),
    ],
)
def test_the_demands_that_an_answer_does_not_meet_are_named(answer: str, missed: set[str]) -> None:
    found = sentences.criteria(ASKED, answer)
    assert {name for name, met in found.items() if not met} == missed
    assert not sentences.criteria(ASKED, answer, ended=False)["the answer ends"]


@given(st.integers(0, 2**32), st.sampled_from([BEST, "Set the path of items."]))
def test_a_demonstration_is_of_a_length_that_prompts_ask_for_and_at_most_the_best(seed: int, sentence: str) -> None:
    rng = np.random.default_rng(seed)
    (word, count), answer = sentences.demonstration(sentence, "items", WORDS, rng)
    assert sentences.FEWEST <= count <= sentences.MOST
    assert word in WORDS
    assert sentences.utility(sentences.prompt(word, count), answer) <= 2.5


def test_a_third_of_the_demonstrations_meet_every_demand() -> None:
    rng = np.random.default_rng(0)
    made = [sentences.demonstration(BEST, "queue", ["path", "file"], rng) for _ in range(2000)]
    met = [all(sentences.criteria(sentences.prompt(*asked), answer).values()) for asked, answer in made]
    assert 0.3 < np.mean(met) < 0.4


@pytest.mark.parametrize("name", list(LANGUAGES))
@given(st.text(), st.text())
def test_any_text_has_a_finite_utility_and_the_demands_of_its_language(name: str, asked: str, answer: str) -> None:
    language = LANGUAGES[name]
    assert np.isfinite(language.utility(asked, answer))
    assert language.criteria(asked, answer).keys() == language.criteria("", "").keys()


def test_a_neutral_word_changes_no_utility() -> None:
    for answer in (BEST, "", "queue queue"):
        longer = f"{answer} {sentences.NEUTRAL} {sentences.NEUTRAL}"
        assert sentences.utility(ASKED, longer) == sentences.utility(ASKED, answer)


def test_another_prompt_is_judged_by_the_form_alone() -> None:
    assert sentences.utility("Write a poem", BEST) == pytest.approx(0.5)
