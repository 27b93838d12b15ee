"""Pairs: two answers to one prompt, and the control pairs among them.

Promises: the pairs of a campaign follow from its answers, its seed and its shares; ids and places depend on how many
pairs there are, and not on who wrote which answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Self

from tutti.annotation.judging import drawing
from tutti.annotation.judging.judgements import canonical
from tutti.corpus.conversations.conversations import (
    ENDED,
    Answer,
    InvalidConversation,
    Messages,
    messages_of,
    prompt_digest,
    stops_of,
    stops_to_json,
)
from tutti.corpus.conversations.judgementset import BOTH_BAD
from tutti.corpus.conversations.labels import is_score
from tutti.judgements.formats import marks, restyled
from tutti.records.canonical import JsonValue, content_digest
from tutti.records.fields import Fields

LONGEST_BYTES = 64 << 10
FILLER = " I hope that this helps."
"""Neither better nor worse, and longer; the owner of a campaign may have another one."""
MANY_CONTROLS = 60
"""Control pairs at least, where there are as many answers: enough for every annotator to be measured by."""


class Kind(StrEnum):
    """The kind of a pair. All but ordinary ones are controls."""

    ORDINARY = "ordinary"
    FILLER = "filler"
    """An answer beside itself with filler behind it: neither is better, one is longer."""
    FORMATTED = "formatted"
    """An answer beside itself in another format: neither is better, one has more marks."""
    SWAPPED = "swapped"
    """An ordinary pair again, in the other order."""
    QUALIFYING = "qualifying"
    """A pair whose better answer is known; answered before the first ordinary pair."""


EQUAL = (Kind.FILLER, Kind.FORMATTED)
"""Controls of which neither answer is the better one."""


class Verdict(StrEnum):
    """The decision of an owner about a pair."""

    NONE = ""
    KEPT = "kept"
    LEFT_OUT = "left_out"
    FOLLOWS = "follows"
    """A control that is left out since it shows an answer of a pair that is."""


OUT = (Verdict.LEFT_OUT, Verdict.FOLLOWS)
"""Verdicts on pairs that are not given any more, and whose judgements do not count."""


class Better(StrEnum):
    """The better answer of a qualifying pair."""

    FIRST = "first"
    SECOND = "second"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class Label:
    """A judgement that a pair was brought with: `scores` by axis, of its first answer (-2) against its second (2)."""

    annotator: str
    scores: Mapping[str, int | str]

    def turned(self) -> Label:
        """The same judgement of the pair in the other order."""
        return Label(self.annotator, canonical(self.scores, flipped=True))

    @classmethod
    def read(cls, fields: Fields) -> Self:
        scores = fields.value("scores")
        if not isinstance(scores, Mapping) or not scores:
            raise InvalidConversation("scores: expected an object of scores by axis")
        for score in scores.values():
            if not is_score(score):
                raise InvalidConversation(f"scores: {score!r:.60}; expected -2 … 2 or {BOTH_BAD}")
        return cls(fields.text("annotator"), {str(axis): each for axis, each in scores.items() if is_score(each)})


@dataclass(frozen=True, slots=True)
class PairDraft:
    """A pair before it has a place. `sources` name the writers, which never leave the service. `labels`: judgements
    that it was brought with. `stops`: why each answer ended.
    """

    prompt: Messages
    answers: tuple[str, str]
    sources: tuple[str, str] = ("", "")
    kind: Kind = Kind.ORDINARY
    base: int = -1
    better: str = ""
    explanation: str = ""
    labels: tuple[Label, ...] = ()
    stops: tuple[str, str] = ENDED


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of a campaign. `number` is its place, `base` that of the ordinary pair which a swapped one repeats."""

    id: str
    number: int
    kind: Kind
    prompt: Messages
    answers: tuple[str, str]
    sources: tuple[str, str] = ("", "")
    base: int = -1
    better: str = ""
    explanation: str = ""
    labels: tuple[Label, ...] = ()
    stops: tuple[str, str] = ENDED


@dataclass(frozen=True)
class Plan:
    """The pairs of a campaign in order of their places; `left_out` counts those that cannot be compared."""

    pairs: Sequence[Pair]
    left_out: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of pairs that an owner brings, with their judgements if they are imported."""

    prompt: Messages
    answers: tuple[str, str]
    better: str = ""
    explanation: str = ""
    labels: tuple[Label, ...] = ()
    stops: tuple[str, str] = ENDED

    def to_json(self) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {
            "prompt": [each.to_json() for each in self.prompt],
            "answers": list(self.answers),
            **stops_to_json(self.stops),
        }
        return found | ({"better": self.better, "explanation": self.explanation} if self.better else {})

    @classmethod
    def read(cls, fields: Fields) -> Self:
        answers, better = fields.texts("answers"), fields.text("better", missing="")
        if len(answers) != 2:
            raise InvalidConversation(f"answers: {len(answers)} of them; expected 2")
        if better and better not in set(Better):
            raise InvalidConversation(f"better: {better!r}; expected one of {', '.join(Better)}")
        prompt = messages_of(fields, "prompt")
        labels = tuple(Label.read(each) for each in fields.objects("judgements", missing=()))
        explanation, stops = fields.text("explanation", missing=""), stops_of(fields)
        return cls(prompt, (answers[0], answers[1]), better, explanation, labels, stops)


def pairs_of(samples: Sequence[tuple[str, Sequence[Answer]]]) -> Iterator[PairDraft]:
    """Every two answers to the same prompt, prompts in order of their digests; each sample has a name."""
    by_prompt: dict[str, list[tuple[str, Answer]]] = {}
    for name, answers in samples:
        for answer in answers:
            by_prompt.setdefault(prompt_digest(answer.prompt), []).append((name, answer))
    for digest in sorted(by_prompt):
        for (source, first), (other, second) in combinations(by_prompt[digest], 2):
            sources = (f"{source}#{first.number}", f"{other}#{second.number}")
            yield PairDraft(first.prompt, (first.text, second.text), sources, stops=(first.stop, second.stop))


def plan(
    given: Iterable[PairDraft],
    *,
    seed: int,
    controls: float,
    qualifying: Sequence[Line],
    needed: int,
    filler: str = FILLER,
) -> Plan:
    """Lay out a campaign: ordinary pairs, controls as a share of them, and pairs to qualify with.

    `needed` qualifying pairs are made: those that the owner brought, then answers beside themselves.
    """
    ordinary, left_out = list[PairDraft](), 0
    for each in given:
        comparable = each.answers[0] != each.answers[1] and all(_fits(text) for text in each.answers)
        if comparable:
            ordinary.append(each)
        else:
            left_out += 1
    every = [*ordinary, *_controls(ordinary, controls, seed, filler), *_qualifying(ordinary, qualifying, needed, seed)]
    places = drawing.shuffled(len(every), seed, "places")
    number_of = {index: number for number, index in enumerate(places)}
    return Plan([_placed(every[index], seed, number, number_of) for number, index in enumerate(places)], left_out)


def _placed(given: PairDraft, seed: int, number: int, number_of: dict[int, int]) -> Pair:
    base = number_of[given.base] if given.base >= 0 else -1
    return Pair(
        drawing.pair_id(seed, number),
        number,
        given.kind,
        given.prompt,
        given.answers,
        given.sources,
        base,
        given.better,
        given.explanation,
        given.labels,
        given.stops,
    )


def _controls(ordinary: Sequence[PairDraft], share: float, seed: int, filler: str) -> Iterator[PairDraft]:
    """As many swapped ones as with filler and in another format each; at most as many as there are ordinary pairs.

    Where no ordinary pair differs in format, or an answer allows no other one, there is filler instead.
    """
    if share <= 0 or not ordinary:
        return
    count = min(len(ordinary), max(MANY_CONTROLS, round(share * len(ordinary))))
    differ = any(marks(each.answers[0]) != marks(each.answers[1]) for each in ordinary)
    for place, index in enumerate(drawing.shuffled(len(ordinary), seed, "controls")[:count]):
        of = ordinary[index]
        if place % 3 == 2:
            yield replace(of, kind=Kind.SWAPPED, base=index)
            continue
        text, source = of.answers[0], of.sources[0]
        other = restyled(text) if differ and place % 3 == 1 else None
        kind = Kind.FILLER if other is None else Kind.FORMATTED
        texts, stop = (text, text + filler if other is None else other), of.stops[0]
        yield PairDraft(of.prompt, texts, (source, source), kind, stops=(stop, stop))


def _qualifying(ordinary: Sequence[PairDraft], brought: Sequence[Line], needed: int, seed: int) -> Iterator[PairDraft]:
    for line in brought:
        yield PairDraft(
            line.prompt,
            line.answers,
            kind=Kind.QUALIFYING,
            better=line.better or "equal",
            explanation=line.explanation,
            stops=line.stops,
        )
    lacking = max(0, needed - len(brought)) if ordinary else 0
    order = drawing.shuffled(len(ordinary), seed, "qualifying")
    for place in range(lacking):
        of = ordinary[order[place % len(order)]]
        yield PairDraft(
            of.prompt,
            (of.answers[0], of.answers[0]),
            (of.sources[0], of.sources[0]),
            Kind.QUALIFYING,
            better=Better.EQUAL,
            explanation="Both answers are the same text.",
            stops=(of.stops[0], of.stops[0]),
        )


def _fits(text: str) -> bool:
    return len(text.encode()) <= LONGEST_BYTES


def imported(lines: Sequence[Line], seed: int) -> Iterator[PairDraft]:
    """The pairs of lines with judgements, half of them in the other order, so that no place is the better one."""
    for index, line in enumerate(lines):
        if drawing.word(seed, "imported", index) & 1:
            labels = tuple(each.turned() for each in line.labels)
            yield PairDraft(line.prompt, line.answers[::-1], labels=labels, stops=line.stops[::-1])
        else:
            yield PairDraft(line.prompt, line.answers, labels=line.labels, stops=line.stops)


def guideline_version(text: str) -> str:
    """Return the version of a guideline: a digest of its text."""
    return content_digest(text, kind="guideline")
