"""Two sets of answers to the same prompts, judged pair by pair by a simulated crowd.

Pure. Promises: equal answers, crowd and seed give equal judgements; the order in which a pair is shown is drawn for
each annotator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tutti.corpus.canonical import JsonValue
from tutti.corpus.conversations import Answer, InvalidConversation, Messages, prompt_digest
from tutti.corpus.fields import Fields
from tutti.judgements.crowds import UTILITIES, Crowd, generator_of
from tutti.judgements.intervals import Interval, win_rate

CONFIDENCE = 0.95


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

    prompt: str
    number: int
    annotator: int
    left: bool
    score: int

    @property
    def outcome(self) -> float:
        """1 where the candidate won, 0 where the baseline did, .5 for a tie."""
        if self.score == 0:
            return 0.5
        return float((self.score < 0) == self.left)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "prompt": self.prompt,
            "number": self.number,
            "annotator": self.annotator,
            "left": self.left,
            "score": self.score,
        }

    @classmethod
    def read(cls, fields: Fields) -> Self:
        number = fields.value("score")
        if not isinstance(number, int) or not -2 <= number <= 2:
            raise InvalidConversation(f"score: {number!r}; expected -2 … 2")
        return cls(
            fields.digest("prompt"),
            fields.count("number"),
            fields.count("annotator"),
            bool(fields.value("left")),
            number,
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """`better` is the share of pairs whose candidate has the higher utility, ties counted half; `utilities` and `words`
    are means of baseline and candidate."""

    pairs: int
    judgements: tuple[Judgement, ...]
    wins: Interval
    better: float
    utilities: tuple[float, float]
    words: tuple[float, float]


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
    people, judge = crowd.annotators(annotators, seed), UTILITIES[crowd.utility]
    judgements, utilities = [], np.zeros((len(pairs), 2))
    for at, pair in enumerate(pairs):
        digest, asked = prompt_digest(pair.prompt), pair.prompt[-1].content
        rng = generator_of(seed, digest, pair.number)
        utilities[at] = [
            judge(asked, answer.text, ended=answer.stop == "end") for answer in (pair.baseline, pair.candidate)
        ]
        for who in sorted(rng.choice(annotators, overlap, replace=False).tolist()):
            left = bool(rng.integers(2))
            shown = (pair.candidate, pair.baseline) if left else (pair.baseline, pair.candidate)
            score = crowd.score(
                people[who],
                asked,
                (shown[0].text, shown[1].text),
                key=(seed, who, f"{digest}/{pair.number}"),
                ended=(shown[0].stop == "end", shown[1].stop == "end"),
            )
            judgements.append(Judgement(digest, pair.number, who, left, score))
    prompts = np.unique([each.prompt for each in judgements], return_inverse=True)[1]
    who = np.array([each.annotator for each in judgements])
    difference = utilities[:, 1] - utilities[:, 0]
    lengths = [[len(answer.text.split()) for answer in (pair.baseline, pair.candidate)] for pair in pairs]
    means, words = utilities.mean(0), np.mean(lengths, 0)
    return Compared(
        pairs=len(pairs),
        judgements=tuple(judgements),
        wins=win_rate(np.array([each.outcome for each in judgements]), [who, prompts], CONFIDENCE),
        better=float((0.5 + 0.5 * np.sign(difference)).mean()),
        utilities=(float(means[0]), float(means[1])),
        words=(float(words[0]), float(words[1])),
    )


def _by_prompt(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for answer in sorted(answers, key=lambda each: each.number):
        found.setdefault(prompt_digest(answer.prompt), []).append(answer)
    return found
