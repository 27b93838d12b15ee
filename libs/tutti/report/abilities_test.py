"""What a report says of the abilities of models follows from their answers, and from intervals, not from means."""

from dataclasses import replace

import pytest

from tutti.client.plain import Plain
from tutti.judgements import sentences
from tutti.judgements.intervals import Proportion
from tutti.judgements.languages import LANGUAGES
from tutti.report.abilities import ALL, Answers, Contest, Held, groups, verdict
from tutti.report.example_test import HOSTILE, facts
from tutti.report.page import page

GOOD, OTHER = "Return the path.", "return a thing"
LANGUAGE = LANGUAGES["sentences@1"]


def answers(*texts: str, stop: str = "end") -> list[Plain]:
    """An answer to each of so many prompts for a sentence of three words with `path`."""
    prompt = sentences.prompt("path", 3)
    return [
        {"messages": [{"role": "user", "content": f"{prompt}{' ' * at}"}], "text": text, "number": at, "stop": stop}
        for at, text in enumerate(texts)
    ]


def compared(low: float, high: float, judgements: int = 300) -> Plain:
    return {"wins": {"mean": (low + high) / 2, "low": low, "high": high}, "judgements": judgements}


def found(**samples: list[Plain]) -> Answers:
    """The answers of `before` compared with those of each other sample."""
    others = [name for name in samples if name != "before"]
    contests = tuple(Contest(f"{name}-compared", "before", name, compared(0.6, 0.7)) for name in others)
    return Answers(contests, samples, {each.stage: LANGUAGE for each in contests}, (Held("base", 3.25, "text"),))


def test_writers_of_the_same_prompts_are_one_group_and_the_best_is_named() -> None:
    before, after = answers(*[OTHER] * 50), answers(*[GOOD] * 50)
    (group,) = groups(found(before=before, after=after, again=before))
    assert [each.name for each in group.writers] == ["before", "after", "again"]
    assert (group.prompts, group.best.name, group.best.utility) == (50, "after", 2.5)
    assert str(group.writers[1].rates[ALL]) == "100.0% (92.9% to 100.0%, n = 50)"
    assert str(group.writers[0].rates[ALL]) == "0.0% (0.0% to 7.1%, n = 50)"
    assert group.examples[0].answers[1] == ("after", GOOD, ())
    assert "it uses the word" in group.examples[0].answers[0][2]


def test_a_baseline_is_before_its_candidates_in_whatever_order_they_were_compared() -> None:
    pairs = (("tuned", "policy"), ("base", "tuned"), ("tuned", "other"), ("again", "base"), ("base", "again"))
    contests = tuple(Contest(f"{a}-{b}", a, b, compared(0.6, 0.7)) for a, b in pairs)
    samples = {name: answers(GOOD) for pair in pairs for name in pair}
    for shown, names in ((contests[:3], ["base", "tuned", "policy", "other"]), (contests[3:], ["again", "base"])):
        (group,) = groups(Answers(shown, samples, {each.stage: LANGUAGE for each in shown}))
        assert [each.name for each in group.writers] == names


def test_samples_of_other_prompts_are_another_group() -> None:
    both = found(before=answers(GOOD, OTHER), after=answers(GOOD, GOOD))
    unseen = Contest("unseen-compared", "a", "b", compared(0.4, 0.6))
    samples = {**both.answers, "a": answers(GOOD), "b": answers(OTHER)}
    languages = {**both.languages, unseen.stage: LANGUAGE}
    told = groups(Answers((*both.contests, unseen), samples, languages))
    assert [[each.name for each in group.writers] for group in told] == [["before", "after"], ["a", "b"]]


@pytest.mark.parametrize(
    ("met", "words"),
    [
        ([True] * 60, "in at least 90 % of its answers"),
        ([True] * 45 + [False] * 15, "in most answers"),
        ([True] * 30 + [False] * 30, "in about half of them"),
        ([True] * 15 + [False] * 45, "in fewer than half"),
        ([False] * 60, "in at most 10 %"),
        ([True] * 3, "in about half of them"),  # three answers show little
    ],
)
def test_a_statement_follows_from_the_interval(met: list[bool], words: str) -> None:
    (group,) = groups(found(before=answers(GOOD), after=answers(GOOD)))
    (told,) = replace(group.writers[0], rates={"it ends": Proportion.of(sum(met), len(met))}).told()
    assert told.startswith(f"{words}: it ends")
    assert f"n = {len(met)}" in told


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.55, 0.65, "after is better than before: it wins 60.0% (55.0% to 65.0%) of 300 simulated judgements"),
        (0.45, 0.65, "after was not shown to be better than before: it wins 55.0%"),
        (0.50, 0.65, "after was not shown to be better than before"),
        (0.20, 0.40, "after is worse than before"),
    ],
)
def test_a_candidate_is_better_only_if_its_whole_interval_is_above_one_half(
    low: float, high: float, words: str
) -> None:
    contest = Contest("compared", "before", "after", compared(low, high), "refused (win: too low)")
    assert verdict(contest).startswith(words)
    assert verdict(contest).endswith("judgements; gate: refused (win: too low)")


def test_the_report_says_what_models_can_do_and_what_nobody_measured() -> None:
    told = page(replace(facts(), answers=found(before=answers(HOSTILE[2]), after=answers(*[GOOD]))))
    assert "What it can and cannot do" in told
    assert "After is better than before" in told
    assert f"not measured is {LANGUAGE.unseen}" in told
    assert "base 3.250 (text)" in told
    assert "<img" not in told
    assert "What it can and cannot do" not in page(facts())
