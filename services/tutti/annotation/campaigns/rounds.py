"""Rounds of assignment: how many judgements each pair needs. Pure.

Promises: the first round gives every pair the least judgements; each later one follows from the judgements of the
rounds before it, and gives another judgement to the pairs that are least decided. A pair never needs more than `most`.
"""

from collections.abc import Iterable, Sequence

from tutti.annotation.judging.judgements import JudgementKind, canonical
from tutti.annotation.judging.records import StoredJudgement


def first(numbers: Sequence[int], least: int, wanted: int) -> dict[int, int]:
    """Judgements that each pair needs in the first round, by number; together at most `wanted`."""
    found, left = dict.fromkeys(numbers, 0), wanted
    for _ in range(least):
        for number in sorted(numbers):
            if left:
                found[number], left = found[number] + 1, left - 1
    return found


def chosen(
    pairs: Sequence[tuple[str, int, int]], said: Iterable[StoredJudgement], axis: str, most: int, lacking: int
) -> list[str]:
    """The ids of the pairs that get another judgement; `pairs` are id, number and judgements needed so far."""
    decided = dict.fromkeys((id for id, _, _ in pairs), 0)
    for each in said:
        score = canonical(each.scores, flipped=each.flipped).get(axis)
        if each.said == JudgementKind.JUDGED and isinstance(score, int):
            decided[each.pair] += score
    open_ = [(abs(decided[id]), number, id) for id, number, needed in pairs if needed < most]
    return [id for _, _, id in sorted(open_)[:lacking]]
