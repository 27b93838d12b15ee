"""Labels of pairs of answers in JSON, as datasets of preferences have them.

Pure. The layouts: ours (`prompt`, `answers`, and `score`, or `scores` by axis), `prompt`, `chosen` and `rejected`
(TRL's and UltraFeedback's, as texts or messages; equal scores of both are a tie), and `chosen` and `rejected`
transcripts (HH). Promises: a record becomes a label or an Unfit with a reason; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tutti.corpus.conversations.conversations import Message, Messages, Role
from tutti.corpus.conversations.fields import chosen_first
from tutti.corpus.conversations.judgementset import BOTH_BAD
from tutti.corpus.conversations.layouts import Layout, answered, asked, meaning, sound, unread, whole, with_system
from tutti.corpus.conversations.unfit import Object, Reason, Unfit, field_name
from tutti.records.canonical import JsonValue

SCORES = (-2, -1, 0, 1, 2)
CHOSEN = -1
"""The score of a chosen answer, the first, beside a rejected one: better."""
TIE = 0
SHOWN_FIELDS = 5
ANNOTATOR = "imported"
"""The annotator of labels that name none."""
EXPECTED = "records with prompt, answers and score, or with chosen and rejected"
ANNOTATOR_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A pair of answers with one judgement: `scores` by axis, -2 the first is much better … 2 the second is."""

    prompt: Messages
    answers: tuple[str, str]
    scores: Mapping[str, int | str]
    annotator: str


def is_score(value: object) -> TypeGuard[int | str]:
    """True for a score of a pair on an axis."""
    return value == BOTH_BAD or (type(value) is int and value in SCORES)


def labelled(record: Object, axes: Sequence[str]) -> Labelled:
    """The label that a record is; a field that is null, as rows of Parquet have it, is none. Raises Unfit."""
    record = {key: value for key, value in record.items() if value is not None}
    annotator = record.get("annotator", ANNOTATOR)
    if not isinstance(annotator, str) or not ANNOTATOR_NAME.fullmatch(annotator):
        raise Unfit(Reason.NOT_A_STRING, f"annotator {annotator!r:.60}; expected 1 to 40 of A-Z, a-z, 0-9, _ and -")
    meaning(record)
    if "scores" not in record and len(axes) != 1:
        raise Unfit(Reason.UNKNOWN_SCORE, f"no scores by axis; expected scores of {', '.join(axes)}")
    if "chosen" in record and "rejected" in record:
        score = CHOSEN if chosen_first(record) else TIE
        prompt, answers = _chosen(record)
        whole(Layout.HH, record, [*prompt, *(Message(Role.ASSISTANT, answer) for answer in answers)])
        return Labelled(prompt, answers, dict.fromkeys(axes, score), annotator)
    if "answers" not in record or "prompt" not in record:
        raise Unfit(Reason.UNKNOWN_LAYOUT, f"{_names(record) or 'nothing'}; expected {EXPECTED}")
    answers = record["answers"]
    if not isinstance(answers, list) or len(answers) != 2 or not all(isinstance(each, str) for each in answers):
        raise Unfit(Reason.NOT_A_STRING, "answers are not two strings; expected two")
    prompt = sound(with_system(record, asked(record)))
    whole(Layout.PROMPT, record, prompt)
    return Labelled(prompt, (_answer(answers[0]), _answer(answers[1])), _scores(record, axes), annotator)


def unread_of(record: Object) -> frozenset[str]:
    """The fields of a label that are not read."""
    if record.get("chosen") is not None:
        return unread(Layout.HH, record) - {"annotator"}
    return unread(Layout.PROMPT, record) - {"answers", "score", "scores", "annotator"}


def _chosen(record: Object) -> tuple[Messages, tuple[str, str]]:
    """The prompt, and the chosen answer before the rejected one."""
    found = []
    for key in ("chosen", "rejected"):
        said = with_system(record, answered(record, key))
        if len(said) < 2 or said[-1].role is not Role.ASSISTANT:
            raise Unfit(Reason.NO_ANSWER, f"{key} does not end with an answer of the assistant to a prompt")
        found.append((sound(said[:-1]), _answer(said[-1].content)))
    (prompt, chosen), (other, rejected) = found
    if prompt != other:
        raise Unfit(Reason.OTHER_PROMPT, "chosen and rejected answer different prompts; expected one prompt")
    return prompt, (chosen, rejected)


def _scores(record: Object, axes: Sequence[str]) -> dict[str, int | str]:
    given = record["scores"] if "scores" in record else dict.fromkeys(axes, record.get("score"))
    if not isinstance(given, Mapping) or sorted(map(str, given)) != sorted(axes):
        seen = _names(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
        raise Unfit(Reason.UNKNOWN_SCORE, f"scores of {seen or 'nothing'}; expected of {', '.join(axes)}")
    for score in given.values():
        if not is_score(score):
            raise Unfit(Reason.UNKNOWN_SCORE, f"score {score!r:.60}; expected -2 … 2 or {BOTH_BAD}")
    return {str(axis): score for axis, score in given.items() if is_score(score)}


def _names(names: Iterable[str]) -> str:
    """The first of these names of fields."""
    return ", ".join(map(field_name, sorted(names)[:SHOWN_FIELDS]))


def _answer(text: str) -> str:
    """An answer as it is; it may be empty, but has to be Unicode text."""
    if text:
        sound([Message(Role.ASSISTANT, f".{text}")])
    return text


def to_json(label: Labelled) -> dict[str, JsonValue]:
    """The judgement in a line of an imported campaign."""
    return {"annotator": label.annotator, "scores": dict(label.scores)}
