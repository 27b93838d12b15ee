"""The judgement set of a campaign: what people said, as one immutable manifest with two files of JSON lines.

Promises: its content follows from the set of judgements, in whatever order they arrived, and from no resource's name;
it has no time, duration, comment or user, and does not say which model wrote an answer. A judgement that is not in it
leaves no trace in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.annotation.judgements import JudgementKind, canonical, is_fast
from tutti.annotation.pairs import Kind, Pair
from tutti.annotation.rows import StoredJudgement
from tutti.corpus.judgementset import JudgementLine, PairLine

LINES = "annotation/lines"
"""The prefix of the files, in the blob store."""
TOO_FAST = "TOO_FAST"


@dataclass(frozen=True)
class JudgementSet:
    """`excluded` counts judgements that are not in it, by reason; annotators who were retracted are in no count."""

    pairs: Sequence[PairLine]
    judgements: Sequence[JudgementLine]
    excluded: Mapping[str, int]


def collect(kept: Iterable[StoredJudgement], pairs: Mapping[str, Pair], number_of: Mapping[int, Pair]) -> JudgementSet:
    """The set of judgements, in canonical order; `number_of` has the pairs by number.

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
    found = [PairLine(each.number, str(each.kind), each.prompt, each.answers) for _, each in sorted(judged.items())]
    return JudgementSet(found, lines, {TOO_FAST: fast} if fast else {})
