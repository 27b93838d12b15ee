"""Pairs that an owner should look at: those that annotators flagged, skipped or commented on, and those on which they
differ most. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutti.annotation.judging.habits import scores_by_pair
from tutti.annotation.judging.judgements import JudgementKind, canonical, in_words
from tutti.annotation.judging.pairs import Pair, Verdict
from tutti.annotation.judging.records import StoredJudgement
from tutti.annotation.judging.remarks import Remark
from tutti.annotation.judging.verdicts import Settled
from tutti.corpus.conversations.conversations import END


@dataclass(frozen=True)
class PairTexts:
    """The texts of a pair, `prompt` as (role, text), and for each answer True if it was cut."""

    prompt: Sequence[tuple[str, str]]
    answers: tuple[str, str]
    cut: tuple[bool, bool] = (False, False)


def texts_of(pair: Pair) -> PairTexts:
    prompt, (first, second) = [(message.role, message.content) for message in pair.prompt], pair.stops
    return PairTexts(prompt, pair.answers, (first != END, second != END))


@dataclass(frozen=True)
class Said:
    """One judgement of a pair: `scores` in words by axis, or the reason for a skip or flag, and the comment."""

    annotator: str
    said: str
    scores: Sequence[tuple[str, str]]
    reason: str
    comment: str


@dataclass(frozen=True)
class DisputedPair:
    """A pair with `why` it is shown; what is `said` of its answers is in their order here.

    `verdict` is empty while its owner has not decided; `decision` is the reason of the verdict.
    """

    id: str
    why: str
    texts: PairTexts
    said: Sequence[Said]
    verdict: str = ""
    decision: str = ""


def differing(kept: Sequence[StoredJudgement], axes: Sequence[str], most: int) -> dict[str, str]:
    """The ordinary pairs with judgements on both sides, by id, and why; the widest difference first."""
    spans: dict[str, tuple[float, str]] = {}
    for axis in axes:
        for pair, scores in scores_by_pair(kept, axis).items():
            low, high = min(scores), max(scores)
            if low < 0 < high:
                spans[pair] = max(spans.get(pair, (0.0, "")), (high - low, axis))
    widest = sorted(spans, key=lambda pair: (-spans[pair][0], pair))[:most]
    return {pair: f"annotators differ on {spans[pair][1]}" for pair in widest}


def marked(remarks: Sequence[Remark], most: int) -> dict[str, str]:
    """The pairs with remarks, by id, and why; flagged ones first."""
    found: dict[str, str] = {}
    for kind in (JudgementKind.FLAGGED, JudgementKind.SKIPPED, JudgementKind.JUDGED):
        for each in remarks:
            if each.said == kind:
                found.setdefault(each.pair, "commented on" if kind == JudgementKind.JUDGED else str(kind))
    return dict(list(found.items())[:most])


def shown(
    chosen: Mapping[str, str],
    pairs: Mapping[str, Pair],
    kept: Sequence[StoredJudgement],
    remarks: Sequence[Remark],
    settled: Mapping[str, Settled],
) -> list[DisputedPair]:
    """The chosen pairs that exist, with all that annotators said of them."""
    beside = {(each.annotator, each.pair): each for each in remarks}
    said: dict[str, list[Said]] = {}
    for each in kept:
        if each.pair in chosen:
            scores = canonical(each.scores, flipped=each.flipped)
            remark = beside.get((each.annotator, each.pair))
            said.setdefault(each.pair, []).append(
                Said(
                    each.annotator,
                    each.said,
                    [(axis, in_words(score, "first", "second")) for axis, score in scores.items()],
                    remark.reason if remark else "",
                    remark.comment if remark else "",
                )
            )
    found = []
    for id, why in chosen.items():
        if id in pairs:
            made = settled.get(id, Settled(Verdict.NONE, ""))
            found.append(DisputedPair(id, why, texts_of(pairs[id]), said.get(id, []), made.verdict, made.reason))
    return found
