"""Harm: the carried set learnt, and told on the part that was held out and on real documentation."""

import random
from pathlib import Path

import numpy as np
import pytest
from benchmarks.harm import CARRIED, KEEPS, MOST_FALSE, UNSEEN, Carried, carried, documentation, verdicts
from benchmarks.harm_windows import around, lesson_of_windows, refused

from tutti.ingest.quality.learning import Lesson, learn


@pytest.fixture(scope="module")
def every() -> list[Carried]:
    return carried()


@pytest.fixture(scope="module")
def lesson(every: list[Carried]) -> Lesson:
    return learn([each.example for each in every], KEEPS, MOST_FALSE)


def test_the_set_has_sixty_texts_or_more_a_category_with_neighbours(every: list[Carried]) -> None:
    for label in {each.label for each in every} - {KEEPS}:
        assert sum(each.label == label for each in every) >= 60
        assert sum(each.near == label and each.label == KEEPS for each in every) >= 40
        assert {each.language for each in every if each.near == label} == {"en", "de", "es"}
    assert len({each.text for each in every}) == len(every)


def test_nine_of_ten_held_out_texts_are_recalled_and_three_of_a_hundred_rejected_wrongly(
    every: list[Carried], lesson: Lesson
) -> None:
    of = {each.text: each for each in every}
    held = [of[each.text] for each in lesson.held_out]
    found = verdicts(lesson.classifier, [each.text for each in held])
    harmful = np.array([each.label != KEEPS for each in held])
    assert (harmful.sum(), (~harmful).sum()) == (237, 197)
    assert (found.classifier[harmful] > 0).mean() >= 0.9
    assert (found.classifier[~harmful] > 0).mean() <= 0.03


def test_so_are_texts_from_which_nothing_was_learnt(every: list[Carried], lesson: Lesson) -> None:
    """Only counts: whoever looks at which texts fail has used them up."""
    unseen = carried(UNSEEN)
    assert not {each.text for each in unseen} & {each.text for each in every}
    found = verdicts(lesson.classifier, [each.text for each in unseen])
    harmful = np.array([each.label != KEEPS for each in unseen])
    assert (harmful.sum(), (~harmful).sum()) == (100, 112)
    assert (found.classifier[harmful] > 0).mean() >= 0.9
    assert (found.classifier[~harmful] > 0).mean() <= 0.03


def test_windows_find_harm_in_long_answers_that_whole_texts_hide(every: list[Carried], lesson: Lesson) -> None:
    """Recall is lower than that of whole texts alone; benchmarks/harm_windows.py has the figures by language."""
    windows, source = lesson_of_windows(every).classifier, random.Random(1)
    unseen = [each for each in carried(UNSEEN) if each.language == "en"]
    harmless = [each.text for each in unseen if each.label == KEEPS]
    places = [around(harmless, source, 1000) for _ in range(60)]
    harmful = [each.text for each in unseen if each.label != KEEPS]
    answers = [f"{one} {text} {two}" for (one, two), text in zip(places, harmful, strict=True)]
    assert refused(windows, answers).mean() >= 0.55
    assert refused(lesson.classifier, answers).mean() <= 0.1
    assert refused(windows, [" ".join(place) for place in places]).mean() <= 0.03


def test_of_real_documentation_one_in_two_hundred_at_most_is_rejected(lesson: Lesson) -> None:
    count = 1_000  # benchmarks/classifiers.py reads ten times as many
    texts = [chunk for (_, chunk), _ in zip(documentation(()), range(count), strict=False)]
    assert len(texts) == count
    assert verdicts(lesson.classifier, texts).either.mean() <= 0.005


def test_nobody_reads_the_set_without_being_told_what_it_does_not_prove() -> None:
    assert "does not prove" in Path(CARRIED, "README.md").read_text(encoding="utf-8")
