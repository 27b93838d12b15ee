"""Judgements: what an annotator says of a pair, as it arrives and as it is kept.

Promises: a judgement is accepted or refused as a whole, with a reason; its id is made by whoever judges, so that a
judgement that is sent again is known.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tutti.corpus.conversations.judgementset import BOTH_BAD
from tutti.corpus.conversations.labels import is_score
from tutti.records.canonical import JsonValue, content_digest

LONGEST_COMMENT, LONGEST_REASON, LONGEST_ANSWER = 4000, 200, 8000
MOST = 50
FASTEST_MS = 10
"""Nobody reads two answers in less: what is faster is recorded and not fitted."""
LONGEST_MS = 7 * 24 * 3600 * 1000
UNKNOWN_MS = -1
"""The time for which the pair of an imported judgement was shown."""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_KEYS = frozenset(
    {"id", "pair", "guideline", "answers", "kind", "reason", "comment", "demonstration", "shown_ms", "supersedes"},
)


def in_words(score: object, first: str, second: str) -> str:
    """A score by the names of the two answers, such as `left much better`."""
    words = {-2: f"{first} much better", -1: f"{first} better", 0: "equal", 1: f"{second} better"}
    words[2] = f"{second} much better"
    return words.get(score, "both bad") if isinstance(score, int) else "both bad"


def is_text(value: str) -> bool:
    """True if every database can store it, and every answer can carry it."""
    return "\0" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def is_fast(shown_ms: int) -> bool:
    """True if a judgement was made in less time than it takes to read anything."""
    return 0 <= shown_ms < FASTEST_MS


class JudgementKind(StrEnum):
    """The kind of a judgement."""

    JUDGED = "judged"
    SKIPPED = "skipped"
    FLAGGED = "flagged"


class Reason(StrEnum):
    """The reason why a judgement is refused."""

    MALFORMED = "MALFORMED"
    UNKNOWN_AXIS = "UNKNOWN_AXIS"
    MISSING_AXIS = "MISSING_AXIS"
    SCORE_OUT_OF_RANGE = "SCORE_OUT_OF_RANGE"
    ID_REUSED = "ID_REUSED"
    UNASSIGNED = "UNASSIGNED"
    ALREADY_JUDGED = "ALREADY_JUDGED"
    SUPERSEDED = "SUPERSEDED"
    OLD_GUIDELINE = "OLD_GUIDELINE"
    RETRACTED = "RETRACTED"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


class RefusedJudgement(Exception):
    """A judgement that is not accepted; `words` say what was seen, what was expected, what to do."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(words)
        self.reason, self.words = reason, words


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judgement of a pair. `scores` by axis, as displayed: -2 left much better … 2 right much better, or both bad.

    `demonstration` is a better answer that the annotator wrote; "" for none.
    """

    id: str
    pair: str
    guideline: str
    said: JudgementKind
    scores: Mapping[str, int | str]
    reason: str = ""
    comment: str = ""
    shown_ms: int = 0
    supersedes: str = ""
    demonstration: str = ""

    @property
    def digest(self) -> str:
        """The identity of everything that was sent."""
        body: dict[str, JsonValue] = {
            "answers": dict(self.scores),
            "comment": self.comment,
            "guideline": self.guideline,
            "kind": str(self.said),
            "pair": self.pair,
            "reason": self.reason,
            "shown_ms": self.shown_ms,
            "supersedes": self.supersedes,
        }
        if self.demonstration:
            body["demonstration"] = self.demonstration
        return content_digest(body, kind="judgement")


def id_of(sent: object) -> str:
    """The id that a judgement claims to have; "" where it has none that can be sent back."""
    found = sent.get("id") if isinstance(sent, Mapping) else None
    return found if isinstance(found, str) and _UUID.fullmatch(found) else ""


def read(sent: object, axes: Collection[str]) -> Judgement:
    """The judgement that a browser sent. Raises RefusedJudgement."""
    if not isinstance(sent, Mapping):
        raise _malformed(f"a judgement is {type(sent).__name__}; expected an object")
    if unknown := sorted(str(key) for key in sent.keys() - _KEYS):
        raise _malformed(f"unknown fields: {', '.join(unknown)[:200]}")
    id = _text(sent, "id", 36)
    if not _UUID.fullmatch(id):
        raise _malformed(f"id is {id!r}; expected a UUID of version 4 in lower case")
    kind = _text(sent, "kind", 20)
    if kind not in set(JudgementKind):
        raise _malformed(f"kind is {kind!r}; expected one of {', '.join(JudgementKind)}")
    supersedes = _text(sent, "supersedes", 36, missing="")
    if supersedes and not _UUID.fullmatch(supersedes):
        raise _malformed(f"supersedes is {supersedes!r}; expected the id of a judgement")
    return Judgement(
        id=id,
        pair=_text(sent, "pair", 64),
        guideline=_text(sent, "guideline", 100),
        said=JudgementKind(kind),
        scores=_scores(sent.get("answers"), axes, JudgementKind(kind)),
        reason=_text(sent, "reason", LONGEST_REASON, missing=""),
        comment=_text(sent, "comment", LONGEST_COMMENT, missing=""),
        shown_ms=_milliseconds(sent.get("shown_ms")),
        supersedes=supersedes,
        demonstration=_text(sent, "demonstration", LONGEST_ANSWER, missing="").strip(),
    )


def _scores(sent: object, axes: Collection[str], said: JudgementKind) -> dict[str, int | str]:
    """Every axis exactly once for a judged pair, none for others. Raises RefusedJudgement."""
    if said is not JudgementKind.JUDGED:
        if sent not in (None, {}):
            raise _malformed(f"a pair that is {said} has answers; expected none")
        return {}
    if not isinstance(sent, Mapping):
        raise _malformed("answers: expected an object of scores by axis")
    if unknown := sorted(str(name) for name in sent if name not in axes):
        raise RefusedJudgement(
            Reason.UNKNOWN_AXIS, f"axis {unknown[0][:80]!r} is not of this campaign; its axes are {', '.join(axes)}"
        )
    if missing := [name for name in axes if name not in sent]:
        raise RefusedJudgement(Reason.MISSING_AXIS, f"axis {missing[0]!r} has no score")
    for name, score in sent.items():
        if not is_score(score):
            raise RefusedJudgement(
                Reason.SCORE_OUT_OF_RANGE, f"axis {name!r} has {str(score)[:40]!r}; expected -2 … 2 or {BOTH_BAD!r}"
            )
    return dict(sent)


def _text(sent: Mapping[str, Any], key: str, longest: int, *, missing: str | None = None) -> str:
    value = sent.get(key, missing)
    if value is None and missing is not None:
        value = missing
    if not isinstance(value, str):
        raise _malformed(f"{key} is {type(value).__name__}; expected text")
    if len(value) > longest:
        raise _malformed(f"{key} has {len(value)} characters; expected at most {longest}")
    if not is_text(value):
        raise _malformed(f"{key} has characters that are not Unicode text")
    return value


def _milliseconds(value: object) -> int:
    """The time that the pair was shown, limited to the range from 0 (a clock that was set back) to a week (a page that
    was left open).
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise _malformed(f"shown_ms is {str(value)[:40]!r}; expected milliseconds")
    return int(min(max(value, 0), LONGEST_MS))


def _malformed(words: str) -> RefusedJudgement:
    return RefusedJudgement(Reason.MALFORMED, words)


def canonical(scores: Mapping[str, int | str], *, flipped: bool) -> dict[str, int | str]:
    """Scores as displayed, turned so that they are of the pair's first and second answer; and back."""
    return {axis: -score if flipped and isinstance(score, int) else score for axis, score in scores.items()}
