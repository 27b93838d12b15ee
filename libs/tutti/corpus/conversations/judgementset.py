"""The lines of a set of judgements: the pairs that were judged, and what was said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tutti.corpus.conversations.conversations import (
    ENDED,
    InvalidConversation,
    Messages,
    messages_of,
    stops_of,
    stops_to_json,
)
from tutti.records.canonical import JsonValue
from tutti.records.fields import Fields
from tutti.records.records import written

BOTH_BAD = "both_bad"
"""The score of a pair of which neither answer is acceptable."""
ORDINARY = "ordinary"
"""The kind of a pair that is no control."""


@dataclass(frozen=True, slots=True)
class PairLine:
    """A pair that was judged. `kind` is ordinary, or that of a control of equal answers: filler or formatted. `stops`
    says why each answer ended.
    """

    number: int
    kind: str
    prompt: Messages
    answers: tuple[str, str]
    stops: tuple[str, str] = ENDED

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "number": self.number,
            "kind": self.kind,
            "prompt": [each.to_json() for each in self.prompt],
            "answers": list(self.answers),
            **stops_to_json(self.stops),
        }

    @classmethod
    def read(cls, fields: Fields) -> PairLine:
        answers = fields.texts("answers")
        if len(answers) != 2:
            raise InvalidConversation(f"answers: {len(answers)} of them; expected 2")
        prompt = messages_of(fields, "prompt")
        return cls(fields.count("number"), fields.text("kind"), prompt, (answers[0], answers[1]), stops_of(fields))


@dataclass(frozen=True, slots=True)
class JudgementLine:
    """A judgement. `scores` are of the first answer (-2) against the second (2); `left`: the first was on the left."""

    pair: int
    annotator: str
    guideline: str
    left: bool
    scores: Mapping[str, int | str]

    def to_json(self) -> dict[str, JsonValue]:
        return written(self)

    @classmethod
    def read(cls, fields: Fields) -> JudgementLine:
        scores = fields.value("scores")
        if not isinstance(scores, Mapping):
            raise InvalidConversation("scores: expected an object")
        own = {str(axis): score if isinstance(score, int) else str(score) for axis, score in scores.items()}
        return fields.record(cls, scores=own)
