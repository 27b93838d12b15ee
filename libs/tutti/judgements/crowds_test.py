"""Simulated crowds: their judgements follow from the seed, and from nothing else."""

from pathlib import Path

import numpy as np
import pytest

from tutti.judgements.crowds import Annotator, Crowd, InvalidCrowd

ROOT = Path(__file__).parents[3]
TEXT = """
utility: letters@1
kinds:
  - {name: fair, share: 0.6, sharpness: [1.5, 3.5], left: [-0.2, 0.2]}
  - {name: random, share: 0.4, sharpness: [0, 0]}
"""
ASKED = "d f a c b copy"
GOOD, BAD = "d f a c b thanks", "d f bad um"


def shares(annotator: Annotator, left: str, right: str, count: int = 1000) -> tuple[float, float]:
    """How often the left answer is preferred, and how often there is a tie."""
    crowd = Crowd.read(TEXT)
    scores = np.array([crowd.score(annotator, ASKED, (left, right), key=(0, 0, str(k))) for k in range(count)])
    assert set(scores) <= {-2, -1, 0, 1, 2}
    return float((scores < 0).mean()), float((scores == 0).mean())


def test_a_fair_annotator_prefers_the_better_answer_wherever_it_is() -> None:
    assert shares(Annotator(2.0), GOOD, BAD)[0] > 0.95
    assert shares(Annotator(2.0), BAD, GOOD)[0] < 0.05
    even, tied = shares(Annotator(2.0), GOOD, GOOD)
    assert abs(even + tied / 2 - 0.5) < 0.05


def test_leanings_change_judgements() -> None:
    assert shares(Annotator(0.0, left=2.0), GOOD, GOOD)[0] > 0.8
    assert shares(Annotator(0.0, length=1.0), BAD, f"{BAD} um um um")[0] < 0.1
    assert shares(Annotator(0.0, format=2.0), "- **a**\n- b", "a b")[0] > 0.95
    assert shares(Annotator(0.0, format=-2.0), "- **a**\n- b", "a b")[0] < 0.05
    assert shares(Annotator(0.0, format=2.0), GOOD, BAD) == shares(Annotator(0.0), GOOD, BAD)


def test_answers_that_differ_in_format_alone_are_equally_good() -> None:
    formatted = "- **d** f a\n- c b thanks"
    assert shares(Annotator(3.0), formatted, GOOD) == shares(Annotator(3.0), GOOD, GOOD)
    assert shares(Annotator(3.0), formatted.replace("thanks", "bad"), GOOD)[0] < 0.05


def test_a_judgement_follows_from_its_key() -> None:
    crowd, judge = Crowd.read(TEXT), Annotator(0.0)
    keys = [(seed, annotator, pair) for seed in (0, 1) for annotator in (0, 1) for pair in "abcdefgh"]
    scores = [crowd.score(judge, ASKED, (GOOD, BAD), key=key) for key in keys]
    again = [crowd.score(judge, ASKED, (GOOD, BAD), key=key) for key in reversed(keys)]
    assert scores == again[::-1]
    assert len(set(scores)) > 1


def test_a_crowd_has_its_kinds_in_proportion() -> None:
    crowd = Crowd.read(TEXT)
    annotators = crowd.annotators(20, seed=0)
    assert len(annotators) == 20
    assert [each.sharpness == 0 for each in annotators] == [False] * 12 + [True] * 8
    assert annotators == crowd.annotators(20, seed=0) != crowd.annotators(20, seed=1)
    assert crowd.annotators(10, seed=0)[:6] == annotators[:6]


@pytest.mark.parametrize("name", ["letters", "sentences"])
def test_the_crowd_of_a_dataset_can_be_read(name: str) -> None:
    assert Crowd.load(ROOT / "datasets" / name / "crowd.yaml").utility == f"{name}@1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("utility: [", "not YAML"),
        (TEXT.replace("letters@1", "beauty"), "utility 'beauty'; expected one of letters@1"),
        (TEXT.replace("0.4", "0.5"), r"shares add up to 1\.1; expected 1"),
        (TEXT.replace("[1.5, 3.5]", "[3.5, 1.5]"), r"kinds\.0: sharpness is 3\.5 … 1\.5"),
        (TEXT.replace("left: [-0.2, 0.2]", "format: [1, -1]"), r"kinds\.0: format is 1\.0 … -1\.0"),
        (TEXT.replace("sharpness: [0, 0]", "sharp: 1"), r"kinds\.1\.sharpness: Field required"),
    ],
)
def test_a_crowd_that_cannot_be_simulated_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidCrowd, match=words):
        Crowd.read(text)
