"""Annotators, assignments and judgements of a campaign, as they are stored."""

from dataclasses import dataclass

from tutti.annotation.judging.pairs import EQUAL, Kind, Pair

LEASED, JUDGED, PASSED, LAPSED = "leased", "judged", "passed", "lapsed"
"""States of an assignment: open, judged, skipped or flagged, and given to others since nobody judged it."""


HELD = (LEASED, JUDGED)


CONTROLS = (*EQUAL, Kind.SWAPPED)


INVITED, QUALIFYING, ACTIVE, SUSPENDED, RETRACTED = "invited", "qualifying", "active", "suspended", "retracted"


@dataclass(frozen=True, slots=True)
class Annotator:
    """A user in a campaign. `places` counts the pairs that were assigned, `guideline` is the version that was read,
    `code` says that he or she was done; empty before. `weight` is that of the judgements in fits, from 0 to 1, which
    the owner has set because of `weight_reason`.
    """

    campaign: str
    key: str
    user: str
    state: str
    reason: str
    guideline: str
    places: int
    code: str = ""
    weight: float = 1.0
    weight_reason: str = ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """An assignment with its pair."""

    pair: Pair
    state: str
    place: int
    judgement: str


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """A judgement as it is kept, with what decides its content. `scores` as displayed."""

    id: str
    annotator: str
    pair: str
    kind: str
    flipped: bool
    scores: dict[str, int | str]
    said: str
    guideline: str
    shown_ms: int
    received_at: int = 0
