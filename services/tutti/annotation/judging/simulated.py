"""Judgements of simulated annotators, as a browser would send them. Pure.

Promises: a judgement follows from (seed, annotator, pair), so it does not depend on when it is made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from blake3 import blake3

from tutti.chassis.errors import InvalidField
from tutti.judgements.crowds import Annotator, Crowd, InvalidCrowd

SHOWN_MS = 5000
LONGEST_CROWD = 16 << 10


@dataclass(frozen=True)
class Simulated:
    """A crowd that judges in one campaign. `keys` are those of its annotators, in the order of the crowd."""

    campaign: str
    crowd: Crowd
    annotators: Sequence[Annotator]
    keys: Sequence[str]
    seed: int

    def judgement(self, key: str, pair: Mapping[str, Any], guideline: str, axes: Sequence[str]) -> Mapping[str, object]:
        """The judgement of a pair, as it was leased, by the annotator with this key."""
        return {
            "id": _id(self.campaign, key, pair["id"]),
            "pair": pair["id"],
            "guideline": guideline,
            "answers": dict.fromkeys(axes, self._score(key, pair)),
            "kind": "judged",
            "shown_ms": SHOWN_MS,
        }

    def _score(self, key: str, pair: Mapping[str, Any]) -> int:
        """-2 … 2 as displayed; equal texts are called equal."""
        left, right = pair["answers"]
        if left == right:
            return 0
        index = self.keys.index(key)
        asked = pair["prompt"][-1]["content"]
        ended = (not pair["cut"][0], not pair["cut"][1])
        draw = (self.seed, index, pair["id"])
        return self.crowd.score(self.annotators[index], asked, (left, right), key=draw, ended=ended)


def simulated(campaign: str, text: str, keys: Sequence[str], seed: int) -> Simulated:
    """The crowd of a campaign. Raises InvalidField."""
    crowd = crowd_in(text)
    return Simulated(campaign, crowd, crowd.annotators(len(keys), seed), list(keys), seed)


def user_of(campaign: str, key: str) -> str:
    """The user that a simulated annotator is for the pages."""
    return f"{campaign}/annotators/{key}"


def crowd_in(text: str) -> Crowd:
    """Raises InvalidField."""
    field = "spec.simulated.crowd"
    if len(text.encode()) > LONGEST_CROWD:
        raise InvalidField(field, seen=f"{len(text.encode())} bytes", expected=f"at most {LONGEST_CROWD}")
    try:
        return Crowd.read(text)
    except InvalidCrowd as error:
        raise InvalidField(field, seen=str(error), expected="YAML with `utility` and `kinds` of annotators") from error


def _id(campaign: str, annotator: str, pair: str) -> str:
    """A UUID of version 4 that names the judgement of this annotator of this pair."""
    return str(UUID(bytes=blake3(f"{campaign}\n{annotator}\n{pair}".encode()).digest(16), version=4))
