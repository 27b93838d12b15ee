"""The judgement set of a campaign: what people said, as one immutable manifest with two files of JSON lines.

Promises: its content follows from the set of judgements, in whatever order they arrived, and from no resource's name;
it has no time, duration, comment or user, and does not say which model wrote an answer. A judgement that is not in it
leaves no trace in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.annotation.judgements import FASTEST_MS, Said, canonical
from tutti.annotation.pairs import Kind, Pair, messages
from tutti.annotation.rows import Kept
from tutti.corpus.canonical import JsonValue
from tutti.corpus.conversations import InvalidConversation, Messages
from tutti.corpus.fields import Fields

LINES = "annotation/lines"
"""The prefix of the files, in the blob store."""
TOO_FAST = "TOO_FAST"


@dataclass(frozen=True, slots=True)
class PairLine:
    """A pair that was judged. `kind` is ordinary or filler."""

    number: int
    kind: str
    prompt: Messages
    answers: tuple[str, str]

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "number": self.number,
            "kind": self.kind,
            "prompt": [each.to_json() for each in self.prompt],
            "answers": list(self.answers),
        }

    @classmethod
    def read(cls, fields: Fields) -> PairLine:
        answers = fields.texts("answers")
        if len(answers) != 2:
            raise InvalidConversation(f"answers: {len(answers)} of them; expected 2")
        prompt = messages(fields.objects("prompt"))
        return cls(fields.count("number"), fields.text("kind"), prompt, (answers[0], answers[1]))


@dataclass(frozen=True, slots=True)
class JudgementLine:
    """A judgement. `scores` are of the first answer (-2) against the second (2); `left`: the first was on the left."""

    pair: int
    annotator: str
    guideline: str
    left: bool
    scores: Mapping[str, int | str]

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "pair": self.pair,
            "annotator": self.annotator,
            "guideline": self.guideline,
            "left": self.left,
            "scores": dict(self.scores),
        }

    @classmethod
    def read(cls, fields: Fields) -> JudgementLine:
        scores = fields.value("scores")
        if not isinstance(scores, Mapping):
            raise InvalidConversation("scores: expected an object")
        left = fields.value("left")
        if not isinstance(left, bool):
            raise InvalidConversation("left: expected true or false")
        own = {str(axis): score if isinstance(score, int) else str(score) for axis, score in scores.items()}
        return cls(fields.count("pair"), fields.text("annotator"), fields.text("guideline"), left, own)


@dataclass(frozen=True)
class JudgementSet:
    """`excluded` counts judgements that are not in it, by reason; annotators who were retracted are in no count."""

    pairs: Sequence[PairLine]
    judgements: Sequence[JudgementLine]
    excluded: Mapping[str, int]


def collect(kept: Iterable[Kept], pairs: Mapping[str, Pair], number_of: Mapping[int, Pair]) -> JudgementSet:
    """The set of judgements, in canonical order; `number_of` has the pairs by number.

    A swapped control is a judgement of the pair that it repeats. What was skipped or flagged, and the qualification, is
    no part of it.
    """
    lines, judged, fast = list[JudgementLine](), dict[int, Pair](), 0
    for each in kept:
        if each.said != Said.JUDGED or each.kind == Kind.QUALIFYING:
            continue
        if each.shown_ms < FASTEST_MS:
            fast += 1
            continue
        pair = pairs[each.pair]
        about = number_of[pair.base] if pair.kind is Kind.SWAPPED else pair
        judged[about.number] = about
        scores = canonical(each.scores, flipped=each.flipped)
        lines.append(JudgementLine(about.number, each.annotator, each.guideline, not each.flipped, scores))
    lines.sort(key=lambda line: (line.pair, line.annotator, line.left, sorted(map(str, line.scores.items()))))
    found = [PairLine(each.number, str(each.kind), each.prompt, each.answers) for _, each in sorted(judged.items())]
    return JudgementSet(found, lines, {TOO_FAST: fast} if fast else {})
