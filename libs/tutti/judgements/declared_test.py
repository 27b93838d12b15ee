"""A language that a crowd declares: each term is worth what it says, and nothing else is looked at."""

import pytest

from tutti.judgements.crowds import Annotator, Crowd, InvalidCrowd

TEXT = """
utility:
  terms:
    - {worth: 2, prompt_words: true}
    - {worth: 1, words: [2, 4]}
    - {worth: 0.5, ends: "."}
    - {worth: -3, contains: bad word}
    - {worth: -1, repeats: true}
    - {worth: 0.25, begins: "the"}
    - {worth: 0.125, ended: true}
"""
ASKED = "Name blue and green"


@pytest.mark.parametrize(
    ("answer", "ended", "utility"),
    [
        ("The blue, the green.", True, 2 * 2 / 4 + 1 + 0.5 - 1 / 4 + 0.25 + 0.125),
        ("so the blue so the green. so", True, 2 * 2 / 4 + 1 + 0.5 - 1 / 4 + 0.25 + 0.125),
        ("Name blue and green", False, 2 + 1),
        ("A BAD word", True, 1 - 3 + 0.125),
        ("one two three four five six", True, 1 - 2 / 4 + 0.125),
        ("one", True, 1 - 1 / 2 + 0.125),
        ("", False, 0.0),
    ],
)
def test_the_utility_is_the_sum_of_what_the_terms_are_worth(answer: str, ended: bool, utility: float) -> None:
    assert Crowd.read(TEXT).language.utility(ASKED, answer, ended=ended) == pytest.approx(utility)


def test_the_subjects_of_a_language_are_those_that_its_crowd_names() -> None:
    assert Crowd.read(TEXT).language.subjects == ()
    assert Crowd.read(f"{TEXT}  subjects: [cats, dogs]\n").language.subjects == ("cats", "dogs")


def test_demands_follow_from_the_signs_of_the_terms() -> None:
    met = Crowd.read(TEXT).language.criteria(ASKED, "the blue one.", ended=False)
    assert met == {
        "it has all words of the prompt": False,
        "its number of words is 2 to 4": True,
        'it must end with "."': True,
        'it must not contain "bad word"': True,
        "it repeats no word": True,
        'it must begin with "the"': True,
        "the answer ends": False,
    }


def test_a_crowd_judges_by_what_it_declares() -> None:
    crowd = Crowd.read(TEXT)
    scores = [
        crowd.score(Annotator(4.0), ASKED, ("The blue, green.", "A bad word"), key=(0, 0, str(k))) for k in range(100)
    ]
    assert sum(score < 0 for score in scores) > 95


@pytest.mark.parametrize(
    ("utility", "words"),
    [
        ("{terms: []}", "utility.*terms"),
        ("{terms: [{worth: 1}]}", "no property; expected exactly one of contains"),
        ("{terms: [{worth: 1, ended: true, repeats: true}]}", "ended and repeats; expected exactly one"),
        ("{terms: [{worth: 1, words: [3, 2]}]}", "expected the lower number first"),
        ("{terms: [{worth: .inf, ended: true}]}", "worth"),
        ("{terms: [{worth: 1, contains: ''}]}", "contains"),
        ("{terms: [{worth: 1, regex: '(a+)+'}]}", "regex"),
        ("{terms: [{worth: 1, ended: false}]}", "ended"),
        ("!!python/object/apply:os.getcwd []", "YAML"),
        ("beauty", "expected one of letters@1, sentences@1, small-world@1, or `terms` of your own"),
    ],
)
def test_what_declares_no_language_is_refused(utility: str, words: str) -> None:
    with pytest.raises(InvalidCrowd, match=words):
        Crowd.read(f"utility: {utility}")
