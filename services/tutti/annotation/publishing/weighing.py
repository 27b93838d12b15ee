"""The weights that the judgements of annotators have in fits: what owners set, and what habits propose. Pure.

Promises: a proposal changes nothing; a weight below 1 has a reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tutti.annotation.judging.checks import check_reason
from tutti.annotation.judging.judgements import FASTEST_MS
from tutti.annotation.judging.records import RETRACTED, Annotator
from tutti.annotation.publishing.merging import Lines
from tutti.chassis.errors import InvalidField
from tutti.judgements.habits import Run
from tutti.records.canonical import JsonValue

WHOLE = 1.0
"""The weight of an annotator for whom none was set."""
FAST_SHARE = 0.1
"""The share of too fast judgements from which on a weight is proposed."""


@dataclass(frozen=True)
class Weight:
    """A weight from 0, for judgements that are not fitted, to 1, and the reason for it."""

    value: float
    reason: str


def read(value: float | None, reason: str) -> Weight:
    """The weight that somebody sent; None is no weight. Raises InvalidField."""
    if value is None or not 0 <= value <= WHOLE:
        raise InvalidField("weight", seen="nothing" if value is None else value, expected="a number from 0 to 1")
    words = check_reason(reason)
    if value < WHOLE and not words:
        raise InvalidField("reason", seen="nothing", expected="why the judgements have less weight, in words")
    return Weight(value, words)


def below_one(annotators: Iterable[Annotator]) -> dict[str, Weight]:
    """The weights below 1 by the keys of annotators, without those of annotators who were retracted."""
    return {
        each.key: Weight(each.weight, each.weight_reason)
        for each in annotators
        if each.weight < WHOLE and each.state != RETRACTED
    }


def proposal(judged: int, fast: int, run: Run | None) -> Weight | None:
    """The weight that habits suggest: the share of `judged` judgements that are neither too fast nor part of a run.

    `fast` of the judgements were made in less time than anybody reads, `run` is one that chance does not explain; None
    where there is neither. The share is rounded down to tenths.
    """
    if judged <= 0:
        return None
    lost = {}
    if fast >= FAST_SHARE * judged:
        lost[f"{fast} of {judged} judgements took less than {FASTEST_MS} ms"] = fast
    if run is not None:
        lost[f"{run.length} of {judged} judgements are a run of one score"] = run.length
    worst = min(judged, max(lost.values(), default=0))
    return Weight(10 * (judged - worst) // judged / 10, "; ".join(lost)) if worst else None


def counted(lines: Lines, weights: Mapping[str, float]) -> Lines:
    """The judgements whose weight is not 0, and the pairs that they are about; `weights` by the keys of annotators."""
    if all(weights.values()):
        return lines
    pairs, said = lines
    kept = [each for each in said if weights.get(each.annotator, WHOLE) > 0]
    numbers = {each.pair for each in kept}
    return [each for each in pairs if each.number in numbers], kept


def to_json(weights: Mapping[str, Weight]) -> list[JsonValue]:
    """The weights as manifests have them, by key."""
    return [{"annotator": key, "reason": each.reason, "weight": each.value} for key, each in sorted(weights.items())]
