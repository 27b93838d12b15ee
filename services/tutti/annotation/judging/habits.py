"""The unusual habits of a campaign's annotators, from their judgements. Pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutti.annotation.judging.judgements import JudgementKind, canonical, in_words
from tutti.annotation.judging.pairs import Kind
from tutti.annotation.judging.records import StoredJudgement
from tutti.judgements.habits import Drift, Haste, Run, drift, hasty, reading_speed, straight
from tutti.judgements.intervals import Proportion


@dataclass(frozen=True)
class Habits:
    """A run of one score as displayed, and decreasing agreement with others; None where chance may explain it.

    `haste` is much less time than others take; None where it is not much less.
    """

    run: Run | None
    fading: Drift | None
    haste: Haste | None = None

    @property
    def words(self) -> Sequence[str]:
        """Each habit as a sentence without its subject."""
        run, fading = self.run, self.fading
        found = [f"{in_words(run.score, 'left', 'right')} {run.length} times in a row"] if run else []
        if fading:
            halves = (Proportion.of(share * fading.half, fading.half) for share in (fading.before, fading.after))
            found.append(f"agreed with others in {', then in '.join(map(str, halves))}")
        if self.haste:
            found.append(f"takes {self.haste.own / 1000:.1f} s for a pair, others {self.haste.others / 1000:.1f} s")
        return found


def habits(kept: Iterable[StoredJudgement], axis: str) -> Mapping[str, Habits]:
    """The habits of annotators, by key."""
    ordinary = [each for each in kept if each.kind == Kind.ORDINARY and axis in each.scores]
    shown: dict[str, list[StoredJudgement]] = {}
    for each in ordinary:
        shown.setdefault(each.annotator, []).append(each)
    every, sums = Counter[Hashable](each.scores[axis] for each in ordinary), Counter[str]()
    for pair, said in scores_by_pair(ordinary, axis).items():
        sums[pair] = sum((score > 0) - (score < 0) for score in said)
    hurried = hasty({key: [each.shown_ms for each in mine if each.shown_ms >= 0] for key, mine in shown.items()})
    found = {}
    for key, mine in shown.items():
        scores: list[Hashable] = [each.scores[axis] for each in mine]
        straightened, faded = straight(scores, every - Counter(scores)), drift(_agreed(mine, axis, sums))
        found[key] = Habits(straightened, faded, hurried.get(key))
    return found


def speed(kept: Iterable[StoredJudgement], lengths: Mapping[str, int]) -> float | None:
    """The characters of answers a second that an annotator read, by the times of arrival; None if too few are known.

    `kept` are judgements of one annotator in order of arrival, `lengths` the characters of the answers of each pair.
    Controls and pairs that were skipped only take time: two equal answers are read at once.
    """

    def read(each: StoredJudgement) -> int:
        return lengths[each.pair] if each.kind == Kind.ORDINARY and each.said == JudgementKind.JUDGED else 0

    return reading_speed([(each.received_at, read(each)) for each in kept])


def _agreed(mine: Sequence[StoredJudgement], axis: str, sums: Mapping[str, int]) -> list[bool]:
    """For the pairs on which both have a side, True if an annotator is on the side of the others."""
    found = []
    for each in mine:
        score = canonical(each.scores, flipped=each.flipped)[axis]
        own = (score > 0) - (score < 0) if isinstance(score, int) else 0
        others = sums[each.pair] - own
        if own and others:
            found.append((own > 0) == (others > 0))
    return found


def scores_by_pair(kept: Iterable[StoredJudgement], axis: str) -> Mapping[str, list[float]]:
    """The scores of each ordinary pair on an axis, -2 … 2 from its first to its second answer; not `both bad`."""
    found: dict[str, list[float]] = {}
    for each in kept:
        score = canonical(each.scores, flipped=each.flipped).get(axis)
        if each.kind == Kind.ORDINARY and isinstance(score, int):
            found.setdefault(each.pair, []).append(float(score))
    return found
