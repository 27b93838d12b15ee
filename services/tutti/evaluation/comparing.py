"""Two sets of answers to the same prompts, judged pair by pair by a simulated crowd or in a campaign.

Pure. Promises: equal answers, crowd and seed give equal judgements, and so do equal answers and sets of judgements; the
order in which a pair is shown is drawn for each annotator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from tutti.corpus.conversations.conversations import Answer, InvalidConversation, Messages, prompt_digest
from tutti.corpus.conversations.judgementset import ORDINARY, JudgementLine, PairLine
from tutti.judgements.crowds import Crowd, generator_of, outcome
from tutti.judgements.intervals import Interval, win_rate
from tutti.native.arrays import np
from tutti.records.canonical import JsonValue
from tutti.records.fields import Digest, Fields
from tutti.records.records import written

CONFIDENCE = 0.95
DIGITS = 6


class NotComparable(ValueError):
    """The answers are not to the same prompts."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The `number`-th answers of both to one prompt."""

    prompt: Messages
    number: int
    baseline: Answer
    candidate: Answer


@dataclass(frozen=True, slots=True)
class Judgement:
    """`score` is as displayed: -2, the left answer is much better, to 2. `left` says that the candidate was left."""

    prompt: Digest
    number: int
    annotator: int
    left: bool
    score: int

    @property
    def outcome(self) -> float:
        """1 where the candidate won, 0 where the baseline did, .5 for a tie."""
        return outcome(self.score, is_left=self.left)

    def to_json(self) -> dict[str, JsonValue]:
        return written(self)

    @classmethod
    def read(cls, fields: Fields) -> Self:
        number = fields.value("score")
        if not isinstance(number, int) or not -2 <= number <= 2:
            raise InvalidConversation(f"score: {number!r}; expected -2 … 2")
        return fields.record(cls, score=number)


@dataclass(frozen=True, slots=True)
class Compared:
    """`better` is the share of pairs whose candidate has the higher utility, ties counted half; `utilities` and `words`
    are means of baseline and candidate. Utilities are known of a simulated crowd alone. `unjudged` counts pairs.
    """

    pairs: int
    judgements: tuple[Judgement, ...]
    wins: Interval
    better: float
    utilities: tuple[float, float] | None
    words: tuple[float, float]
    unjudged: int = 0


def paired(baseline: Sequence[Answer], candidate: Sequence[Answer]) -> list[Pair]:
    """The answers of both by prompt, in the order of the prompts' digests. Raises NotComparable."""
    sides = [_by_prompt(answers) for answers in (baseline, candidate)]
    if missing := sides[0].keys() ^ sides[1].keys():
        raise NotComparable(
            f"{len(missing)} of {len(sides[0].keys() | sides[1].keys())} prompts have answers of one side alone; "
            "sample both from the same part of the same conversations"
        )
    found = []
    for prompt in sorted(sides[0]):
        first, second = sides[0][prompt], sides[1][prompt]
        if len(first) != len(second):
            raise NotComparable(f"a prompt has {len(first)} and {len(second)} answers; sample with the same `each`")
        found += [Pair(a.prompt, number, a, b) for number, (a, b) in enumerate(zip(first, second, strict=True))]
    if not found:
        raise NotComparable("neither side has an answer; expected at least one prompt")
    return found


def compare(pairs: Sequence[Pair], crowd: Crowd, *, annotators: int, overlap: int, seed: int) -> Compared:
    """Let `overlap` annotators of the crowd judge each pair."""
    people, judge = crowd.annotators(annotators, seed), crowd.language.utility
    judgements, utilities = [], np.zeros((len(pairs), 2))
    for at, pair in enumerate(pairs):
        digest, asked = prompt_digest(pair.prompt), pair.prompt[-1].content
        rng = generator_of(seed, digest, pair.number)
        utilities[at] = [
            judge(asked, answer.text, ended=answer.stop == "end") for answer in (pair.baseline, pair.candidate)
        ]
        for who, left, score in crowd.verdicts(
            people,
            sorted(rng.choice(annotators, overlap, replace=False).tolist()),
            asked,
            (pair.candidate.text, pair.baseline.text),
            ended=(pair.candidate.stop == "end", pair.baseline.stop == "end"),
            rng=rng,
            key=(seed, f"{digest}/{pair.number}"),
        ):
            judgements.append(Judgement(digest, pair.number, who, left, score))
    difference, means = utilities[:, 1] - utilities[:, 0], utilities.mean(0)
    return Compared(
        pairs=len(pairs),
        judgements=tuple(judgements),
        wins=_wins(judgements),
        better=float((0.5 + 0.5 * np.sign(difference)).mean()),
        utilities=(float(means[0]), float(means[1])),
        words=_words(pairs),
    )


def judged(pairs: Sequence[Pair], lines: Iterable[PairLine], said: Iterable[JudgementLine], axis: str) -> Compared:
    """Let the judgements of a campaign decide, of the pairs that it had on an axis; it may have judged others too.

    A pair of which neither answer is acceptable is a tie. Raises NotComparable where no judgement is of these answers.
    """
    known = {(prompt_digest(each.prompt), each.baseline.text, each.candidate.text): each for each in reversed(pairs)}
    about: dict[int, tuple[Pair, bool]] = {}
    for line in lines:
        digest, (first, second) = prompt_digest(line.prompt), line.answers
        if line.kind != ORDINARY or first == second:
            continue
        for candidate_first, texts in ((False, (first, second)), (True, (second, first))):
            if (pair := known.get((digest, *texts))) is not None:
                about[line.number] = (pair, candidate_first)
    counted = sorted(
        (each for each in said if each.pair in about and axis in each.scores),
        key=lambda each: (each.pair, each.annotator, each.left),
    )
    if not counted:
        raise NotComparable(
            f"no judgement on the axis {axis!r} is of an answer of the baseline beside one of the candidate; expected "
            "a campaign whose answers are both samples"
        )
    numbers = {name: number for number, name in enumerate(sorted({each.annotator for each in counted}))}
    judgements, seen = [], set[tuple[str, int]]()
    for each in counted:
        pair, candidate_first = about[each.pair]
        score = each.scores[axis]
        shown = (score if each.left else -score) if isinstance(score, int) else 0
        digest = prompt_digest(pair.prompt)
        seen.add((digest, pair.number))
        judgements.append(Judgement(digest, pair.number, numbers[each.annotator], candidate_first == each.left, shown))
    return Compared(
        pairs=len(pairs),
        judgements=tuple(judgements),
        wins=_wins(judgements),
        better=0.0,
        utilities=None,
        words=_words(pairs),
        unjudged=len(pairs) - len(seen),
    )


@dataclass(frozen=True, slots=True)
class Differing:
    """A pair by prompt and number: the probability that a reward model gives the candidate's answer, and the share that
    it won of so many judgements.
    """

    prompt: Digest
    number: int
    promised: float
    judged: float
    judgements: int

    def to_json(self) -> dict[str, JsonValue]:
        return written(self)

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return fields.record(cls)


def differing(
    pairs: Sequence[Pair], promised: Sequence[float], judgements: Sequence[Judgement], most: int
) -> list[Differing]:
    """The pairs on which a reward model and those who judged differ most, the widest difference first.

    `promised` has a number for each pair. Pairs that nobody judged are left out.
    """
    outcomes: dict[tuple[str, int], list[float]] = {}
    for each in judgements:
        outcomes.setdefault((each.prompt, each.number), []).append(each.outcome)
    found = []
    for pair, chance in zip(pairs, promised, strict=True):
        key = prompt_digest(pair.prompt), pair.number
        if said := outcomes.get(key):
            judged = round(sum(said) / len(said), DIGITS)
            found.append(Differing(*key, round(chance, DIGITS), judged, len(said)))
    found.sort(key=lambda each: (-abs(each.promised - each.judged), -each.judgements, each.prompt, each.number))
    return found[:most]


def _wins(judgements: Sequence[Judgement]) -> Interval:
    """The share that the candidate wins, clustered by annotator and prompt."""
    prompts = np.unique([each.prompt for each in judgements], return_inverse=True)[1]
    who = np.array([each.annotator for each in judgements])
    return win_rate(np.array([each.outcome for each in judgements]), [who, prompts], CONFIDENCE)


def _words(pairs: Sequence[Pair]) -> tuple[float, float]:
    """The mean numbers of words of baseline and candidate."""
    lengths = [[len(answer.text.split()) for answer in (pair.baseline, pair.candidate)] for pair in pairs]
    baseline, candidate = np.mean(lengths, 0)
    return float(baseline), float(candidate)


def _by_prompt(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=lambda each: each.number):
        found.setdefault(prompt_digest(answer.prompt), []).append(answer)
    return found
