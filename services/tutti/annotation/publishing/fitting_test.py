"""Preferences of a crowd that leans: who can be trusted is learned, and what cannot be known is said."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tutti.annotation.judging import drawing
from tutti.annotation.publishing.fitting import CERTAIN, PLAIN, RELIABILITY, Fitted, fitted, length
from tutti.corpus.conversations.conversations import Message, Role
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine
from tutti.judgements import letters
from tutti.judgements.crowds import Annotator, Character, Crowd

CROWD = Path(__file__).parents[4] / "datasets" / "letters" / "crowd.yaml"
AXIS = "helpful"
FILLER = f" {letters.NEUTRAL}" * 3
PEOPLE = 20


def pair(number: int, rng: np.random.Generator, *, control: bool) -> PairLine:
    """Two demonstrations of the same prompt, or one beside itself with filler."""
    asked = letters.prompt(rng)
    first = letters.demonstration(asked, rng)
    second = f"{first}{FILLER}" if control else letters.demonstration(asked, rng)
    kind = "filler" if control else "ordinary"
    return PairLine(number, kind, (Message(Role.USER, asked),), (first, second))


def judged(crowd: Crowd, people: list[Annotator], index: int, of: PairLine, seed: int) -> JudgementLine:
    left = not drawing.is_flipped(seed, str(index), str(of.number))
    shown = of.answers if left else (of.answers[1], of.answers[0])
    asked = of.prompt[0].content
    score = crowd.score(people[index], asked, shown, key=(seed, index, str(of.number)))
    return JudgementLine(of.number, f"s{index:03}", "g", left, {AXIS: score if left else -score})


def world(
    seed: int, *, pairs: int = 800, each: int = 3, controls: int = 40, version: str = RELIABILITY
) -> tuple[list[PairLine], Fitted]:
    rng = np.random.default_rng(seed)
    crowd = Crowd.load(CROWD)
    people = crowd.annotators(PEOPLE, seed)
    lines = [pair(number, rng, control=number >= pairs) for number in range(pairs + controls)]
    said = [
        judged(crowd, people, int(index), of, seed)
        for of in lines
        for index in (rng.choice(PEOPLE, each, replace=False) if of.kind == "ordinary" else range(PEOPLE))
    ]
    return lines, fitted(lines, said, AXIS, version)


def right(lines: list[PairLine], found: Fitted) -> float:
    """The share of pairs whose better answer has the larger probability, ties of utility aside."""
    hits = []
    for each in found.preferences:
        gap = [letters.utility(each.prompt[0].content, answer) for answer in each.answers]
        if gap[0] != gap[1]:
            hits.append((each.first > 0.5) == (gap[0] > gap[1]))
    return float(np.mean(hits))


def test_those_who_press_keys_at_random_are_the_least_sharp_and_leanings_are_seen() -> None:
    lines, found = world(0)
    assert found.unidentified == ()
    assert len(found.preferences) == 800
    by_sharpness = sorted(found.annotators, key=lambda each: each.sharpness[0])
    assert {each.key for each in by_sharpness[:2]} == {"s018", "s019"}
    position = {each.key: each.position[0] for each in found.annotators}
    assert min(position[f"s{index:03}"] for index in (12, 13, 14)) > 0.6
    assert abs(np.mean([position[f"s{index:03}"] for index in range(12)])) < 0.35
    fond = {each.key: each.length[0] for each in found.annotators}
    assert min(fond[f"s{index:03}"] for index in (15, 16, 17)) > max(0.0, np.median(list(fond.values())))
    assert right(lines, found) > 0.8


def test_a_leaning_to_format_is_seen_where_answers_differ_in_it() -> None:
    """Demonstrations, of which some are lists; controls show one with and without marks."""
    rng = np.random.default_rng(0)
    kinds = (
        Character(name="fond of lists", share=0.3, sharpness=(1.5, 2.5), format=(1.0, 1.5)),
        Character(name="fair", share=0.7, sharpness=(1.5, 3.5)),
    )
    crowd = Crowd(utility="letters@1", kinds=kinds)
    people, lines = crowd.annotators(PEOPLE, 0), []
    for number in range(640):
        of = pair(number, rng, control=600 <= number < 620)
        first, second = (f"- **{text}**" if rng.integers(2) else text for text in of.answers)
        if number >= 620:
            of = replace(of, kind="formatted", answers=(of.answers[0], f"- **{of.answers[0]}**"))
        lines.append(of if of.kind != "ordinary" else replace(of, answers=(first, second)))
    said = [
        judged(crowd, people, int(index), of, 0)
        for of in lines
        for index in (rng.choice(PEOPLE, 3, replace=False) if of.kind == "ordinary" else range(PEOPLE))
    ]
    found = fitted(lines, said, AXIS)
    assert found.unidentified == ()
    leans = [each.format[0] for each in found.annotators if each.format]
    assert len(leans) == PEOPLE
    assert min(leans[:6]) > max(0.6, *leans[6:])
    assert abs(np.mean(leans[6:])) < 0.35
    assert {each.controls for each in found.annotators} == {40}
    assert "format" in found.annotators[0].to_json()


def test_without_a_difference_of_format_nothing_is_said_of_it() -> None:
    _, found = world(0, pairs=60)
    assert {each.format for each in found.annotators} == {None}
    assert "format" not in found.annotators[0].to_json()


def test_one_judgement_a_pair_without_controls_is_said_to_identify_nobody() -> None:
    _, found = world(0, pairs=60, each=1, controls=0)
    assert [line.partition(":")[0] for line in found.unidentified] == ["reliability", "leanings"]


def test_a_plain_fit_estimates_nobody() -> None:
    lines, found = world(0, pairs=400, version=PLAIN)
    assert len({each.sharpness[0] for each in found.annotators}) == 1
    assert [line.partition(":")[0] for line in found.unidentified] == ["reliability and leanings"]
    assert right(lines, found) < right(*world(0, pairs=400))


def test_controls_have_no_preference_and_are_counted() -> None:
    lines, found = world(1, pairs=40, controls=12)
    assert len(found.preferences) == 40
    assert {each.controls for each in found.annotators} == {12}
    assert all(0 < each.first < 1 for each in found.preferences)
    assert [each.answers for each in found.preferences] == [line.answers for line in lines[:40]]


def test_both_bad_and_equal_are_ties() -> None:
    lines = [pair(0, np.random.default_rng(0), control=False)]
    for score in (0, "both_bad"):
        said = [JudgementLine(0, key, "g", True, {AXIS: score}) for key in "ab"]
        assert fitted(lines, said, AXIS).preferences[0].first == pytest.approx(0.5, abs=0.05)


def test_a_preference_has_the_share_of_its_judgements_beside_the_posterior() -> None:
    lines = [pair(number, np.random.default_rng(number), control=False) for number in range(2)]
    said = [JudgementLine(0, key, "g", True, {AXIS: score}) for key, score in (("a", -2), ("b", -1), ("c", 1))]
    said += [JudgementLine(1, "a", "g", False, {AXIS: 0})]
    first, second = fitted(lines, said, AXIS).preferences
    assert first.judged == pytest.approx(2 / 3, abs=1e-6)
    assert second.judged == 0.5
    assert fitted(lines, said[:3], AXIS).preferences[1].judged is None


@pytest.mark.parametrize(
    ("text", "units"), [("", 0), ("two words", 2), ("a, b;  c", 3), ("日本語だ", 4), ("ab 日本", 3)]
)
def test_length_counts_words_and_characters_of_scripts_without_spaces(text: str, units: int) -> None:
    assert length(text) == units


def test_certain_labels_are_taken_at_their_word() -> None:
    prompt = (Message(Role.USER, "why?"),)
    lines = [PairLine(number, "ordinary", prompt, (f"so {number}", "no")) for number in range(3)]
    said = [JudgementLine(number, "imported", "g", True, {AXIS: score}) for number, score in enumerate((-1, 1, 0))]
    assert [each.first for each in fitted(lines, said, AXIS, CERTAIN).preferences] == [1 - 1e-6, 1e-6, 0.5]
    assert all(0.1 < each.first < 0.9 for each in fitted(lines, said, AXIS).preferences)
