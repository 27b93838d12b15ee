"""The judgement set of a campaign: what people said, as one immutable manifest with two files of JSON lines.

Promises: its content follows from the judgements and their weights, in whatever order they arrived, and from no name;
it has no time, duration, comment or user, and does not say which model wrote an answer. A judgement that is not in it
leaves no trace in it. Weights below 1 are in it, each with its reason, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.annotation.judging.judgements import JudgementKind, canonical, is_fast
from tutti.annotation.judging.pairs import Kind, Pair
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.publishing.weighing import Weight
from tutti.corpus.conversations.judgementset import JudgementLine, PairLine

LINES = "annotation/lines"
"""The prefix of the files, in the blob store."""
TOO_FAST = "TOO_FAST"


@dataclass(frozen=True)
class JudgementSet:
    """`excluded` counts judgements that are not in it, by reason; annotators who were retracted are in no count.
    `weights` has those below 1, by the keys of annotators.
    """

    pairs: Sequence[PairLine]
    judgements: Sequence[JudgementLine]
    excluded: Mapping[str, int]
    weights: Mapping[str, Weight]


def collect(
    kept: Iterable[StoredJudgement],
    pairs: Mapping[str, Pair],
    number_of: Mapping[int, Pair],
    weights: Mapping[str, Weight],
) -> JudgementSet:
    """The set of judgements, in canonical order; `number_of` has the pairs by number, `weights` those below 1 by the
    keys of annotators.

    A swapped control is a judgement of the pair that it repeats. What was skipped or flagged, and the qualification, is
    no part of it.
    """
    lines, judged, fast = list[JudgementLine](), dict[int, Pair](), 0
    for each in kept:
        if each.said != JudgementKind.JUDGED or each.kind == Kind.QUALIFYING:
            continue
        if is_fast(each.shown_ms):
            fast += 1
            continue
        pair = pairs[each.pair]
        about = number_of[pair.base] if pair.kind is Kind.SWAPPED else pair
        judged[about.number] = about
        scores = canonical(each.scores, flipped=each.flipped)
        lines.append(JudgementLine(about.number, each.annotator, each.guideline, not each.flipped, scores))
    lines.sort(key=lambda line: (line.pair, line.annotator, line.left, sorted(map(str, line.scores.items()))))
    found = [
        PairLine(each.number, str(each.kind), each.prompt, each.answers, each.stops)
        for _, each in sorted(judged.items())
    ]
    present = {each.annotator for each in lines}
    weighed = {key: weight for key, weight in weights.items() if key in present}
    return JudgementSet(found, lines, {TOO_FAST: fast} if fast else {}, weighed)
