"""Comparisons: what wins, by how much, and that it follows from answers, crowd and seed."""

from collections.abc import Callable

import numpy as np
import pytest

from tutti.corpus.conversations.conversations import Answer, Message, Role, prompt_digest
from tutti.corpus.conversations.judgementset import BOTH_BAD, JudgementLine, PairLine
from tutti.evaluation.comparing import Differing, Judgement, NotComparable, Pair, compare, differing, judged, paired
from tutti.judgements import letters
from tutti.judgements.crowds import Crowd

CROWD = Crowd(utility="letters@1")


def answers(write: Callable[[str], str], count: int = 60) -> list[Answer]:
    """One answer to each of `count` prompts."""
    rng = np.random.default_rng(0)
    asked = [letters.prompt(rng) for _ in range(count)]
    return [Answer((Message(Role.USER, each),), n, write(each), (), "end") for n, each in enumerate(asked)]


def best(asked: str) -> str:
    return f"{asked.removesuffix(' copy')} thanks"


def worse(asked: str) -> str:
    return f"um {asked.removesuffix(' copy')[::-1]}"


def test_better_answers_win() -> None:
    found = compare(paired(answers(worse), answers(best)), CROWD, annotators=20, overlap=3, seed=0)
    assert (found.pairs, len(found.judgements)) == (60, 180)
    assert found.wins.low > 0.6
    assert found.better == 1
    assert found.utilities is not None
    assert found.utilities[1] == 2.5 > found.utilities[0]
    reverse = compare(paired(answers(best), answers(worse)), CROWD, annotators=20, overlap=3, seed=0)
    assert reverse.wins.high < 0.4


def test_the_pairs_on_which_a_reward_model_and_people_differ_most_come_first() -> None:
    pairs = paired(answers(worse, 4), answers(best, 4))
    names = [prompt_digest(each.prompt) for each in pairs]
    said = [Judgement(names[0], pairs[0].number, who, True, score) for who, score in enumerate((2, 1, -1, 0))]
    said += [Judgement(names[at], pairs[at].number, 0, True, -2) for at in (1, 2)]  # nobody judged the last one
    found = differing(pairs, [0.9, 0.6, 0.1, 0.0], said, most=2)
    assert found == [
        Differing(names[2], pairs[2].number, 0.1, 1.0, 1),
        Differing(names[0], pairs[0].number, 0.9, 0.375, 4),
    ]
    assert differing(pairs, [0.9, 0.6, 0.1, 0.0], said, most=9)[2:] == [Differing(names[1], pairs[1].number, 0.6, 1, 1)]


def test_equal_answers_win_half() -> None:
    found = compare(paired(answers(best), answers(best)), CROWD, annotators=20, overlap=3, seed=1)
    assert found.wins.low < 0.5 < found.wins.high
    assert found.better == 0.5


def test_judgements_follow_from_answers_crowd_and_seed() -> None:
    one, other = answers(worse), answers(best)
    first = compare(paired(one, other), CROWD, annotators=20, overlap=3, seed=0)
    assert compare(paired(one[::-1], other[::-1]), CROWD, annotators=20, overlap=3, seed=0) == first
    assert compare(paired(one, other), CROWD, annotators=20, overlap=3, seed=1) != first


def test_a_pair_is_judged_by_different_annotators_on_both_sides() -> None:
    found = compare(paired(answers(worse), answers(best)), CROWD, annotators=5, overlap=5, seed=0)
    for prompt in {each.prompt for each in found.judgements}:
        assert sorted(each.annotator for each in found.judgements if each.prompt == prompt) == list(range(5))
    assert 0.4 < np.mean([each.left for each in found.judgements]) < 0.6


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (answers(best, 59), "1 of 60 prompts have answers of one side alone"),
        (answers(best) + answers(best), "a prompt has 1 and 2 answers"),
    ],
)
def test_answers_to_other_prompts_are_refused(candidate: list[Answer], words: str) -> None:
    with pytest.raises(NotComparable, match=words):
        paired(answers(worse), candidate)


def test_no_answers_are_refused() -> None:
    with pytest.raises(NotComparable, match="neither side has an answer"):
        paired([], [])


def test_several_answers_to_a_prompt_are_paired_by_their_number() -> None:
    prompt = (Message(Role.USER, "a b c d e copy"),)
    first = [Answer(prompt, n, str(n), (), "end") for n in (3, 2)]
    second = [Answer(prompt, n, str(n), (), "end") for n in (9, 8)]
    assert [(pair.baseline.text, pair.candidate.text) for pair in paired(first, second)] == [("2", "8"), ("3", "9")]
    assert isinstance(paired(first, second)[0], Pair)


def set_of(pairs: list[Pair], *, others: int = 0) -> tuple[list[PairLine], list[JudgementLine]]:
    """A campaign in which three annotators prefer the candidate; every second pair has it as its first answer."""
    lines, said = list[PairLine](), list[JudgementLine]()
    for number, each in enumerate(pairs):
        texts = (each.candidate.text, each.baseline.text) if number % 2 else (each.baseline.text, each.candidate.text)
        lines.append(PairLine(number, "ordinary", each.prompt, texts))
        for who in ("a1", "a2", "a3"):
            better = -2 if number % 2 else 2
            said.append(JudgementLine(number, who, "g", (number + int(who[1])) % 3 == 0, {"helpful": better}))
    for number in range(len(pairs), len(pairs) + others):
        of = pairs[number - len(pairs)]
        lines.append(PairLine(number, "filler", of.prompt, (of.baseline.text, f"{of.baseline.text} so")))
        said.append(JudgementLine(number, "a1", "g", True, {"helpful": 0}))
    return lines, said


def test_the_judgements_of_a_campaign_decide_whichever_answer_was_first_or_left() -> None:
    pairs = paired(answers(worse), answers(best))
    found = judged(pairs, *set_of(pairs, others=5), "helpful")
    assert (found.pairs, len(found.judgements), found.unjudged, found.utilities) == (60, 180, 0, None)
    assert {each.outcome for each in found.judgements} == {1.0}
    assert {each.left for each in found.judgements} == {True, False}
    swapped = paired(answers(best), answers(worse))
    assert {each.outcome for each in judged(swapped, *set_of(pairs), "helpful").judgements} == {0.0}


def test_a_pair_of_two_bad_answers_is_a_tie_and_one_that_nobody_judged_is_counted() -> None:
    pairs = paired(answers(worse), answers(best))
    lines, said = set_of(pairs[:10])
    said = [JudgementLine(each.pair, each.annotator, each.guideline, each.left, {"helpful": BOTH_BAD}) for each in said]
    found = judged(pairs, lines, said, "helpful")
    assert {each.outcome for each in found.judgements} == {0.5}
    assert found.unjudged == 50


def test_the_order_of_judgements_does_not_matter() -> None:
    pairs = paired(answers(worse), answers(best))
    lines, said = set_of(pairs)
    assert judged(pairs, lines[::-1], said[::-1], "helpful") == judged(pairs, lines, said, "helpful")


def test_a_campaign_over_other_answers_or_another_axis_is_refused() -> None:
    pairs = paired(answers(worse), answers(best))
    with pytest.raises(NotComparable, match="expected a campaign whose answers are both samples"):
        judged(pairs, *set_of(paired(answers(worse), answers(str))), "helpful")
    with pytest.raises(NotComparable, match="no judgement on the axis 'brief'"):
        judged(pairs, *set_of(pairs), "brief")
