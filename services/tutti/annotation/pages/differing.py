"""Pairs on which a reward model and those who judged differ most, from the comparisons that rest on a campaign.

Promises: evaluation, which makes comparisons, is asked for at most `SECONDS` in all; what it does not answer is told
in words, and nothing waits longer for it. Nothing is stored.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import select

from tutti.annotation.judging import remarks, verdicts
from tutti.annotation.judging.pairs import Kind, Pair
from tutti.annotation.judging.rows import Rows
from tutti.annotation.pages import disputed
from tutti.annotation.pages.disputed import DisputedPair, PairTexts
from tutti.chassis.errors import Problem, Refused
from tutti.chassis.rpc.deadline import Deadline
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.evaluation.v1 import STANDING_STALE, Comparison, DifferingPair, ReadComparisonRequest
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub
from tutti.corpus.conversations.conversations import as_lines
from tutti.judgements.intervals import Proportion

SECONDS = 3.0
COMPARED, SHOWN, REMARKS, PAGE = 5, 10, 100, 500
"""The newest comparisons, the pairs of each, the newest remarks about them, and the comparisons of one answer."""
JUDGED, LEARNED = "judged by this campaign", "of models that learned from the judgements of this campaign"
FIELDS = ("name", "ended_at", "spec.reward.checkpoint", "spec.judged.campaign", "evidence", "standing")


@dataclass(frozen=True)
class Compared:
    """A comparison that rests on a campaign, the reason `why` it does, and its pairs, the widest difference first."""

    name: str
    why: str
    stale: bool
    pairs: Sequence[DifferingPair]


@dataclass(frozen=True)
class ComparedPairs:
    """The same to be shown: pairs of the campaign with their ids and what annotators said, others without."""

    name: str
    why: str
    stale: bool
    pairs: Sequence[DisputedPair]


class Evaluation:
    """The service evaluation, as the pages ask it."""

    def __init__(self, host: Host) -> None:
        self._clock, self._stub = host.clock, ComparisonServiceStub(host.channel("evaluation"))

    def compared(self, campaign: str) -> tuple[list[Compared], list[str]]:
        """The newest comparisons with a reward model that rest on a campaign; and what was not answered, in words."""
        found, missing, deadline = list[Compared](), list[str](), Deadline(SECONDS, self._clock.monotonic)
        try:
            resting = [each for each in self._with_reward_model(deadline) if _why(each, campaign)]
            resting.sort(key=lambda each: (-each.ended_at.ToNanoseconds(), each.name))
            for each in resting[:COMPARED]:
                try:
                    asked = ReadComparisonRequest(name=each.name, count=SHOWN)
                    pairs = self._stub.ReadComparison(asked, timeout=deadline.left()).pairs
                except Refused as refused:
                    missing.append(refused.message)
                    continue
                found.append(Compared(each.name, _why(each, campaign), each.standing == STANDING_STALE, pairs))
        except Problem as problem:
            missing.append(f"evaluation did not answer: {problem.message}")
        return found, missing

    def _with_reward_model(self, deadline: Deadline) -> Iterator[Comparison]:
        token = ""
        while True:
            asked = ListRequest(
                filter="state=done", page_size=PAGE, page_token=token, read_mask=FieldMask(paths=FIELDS)
            )
            page = self._stub.ListComparisons(asked, timeout=deadline.left())
            yield from (each for each in page.comparisons if each.spec.reward.checkpoint)
            token = page.next_page_token
            if not token:
                return


def shown(rows: Rows, unit: Unit, campaign: str, compared: Sequence[Compared]) -> list[ComparedPairs]:
    """The pairs of comparisons. Those of the campaign are in its order of answers, others with the baseline first."""
    own = _own(rows, unit, campaign, [told for each in compared for told in each.pairs])
    kept = list(rows.kept(unit, campaign)) if own else []
    said = remarks.remarks(rows.tables, unit, campaign, REMARKS) if own else []
    settled = verdicts.settled(rows.tables, unit, campaign) if own else {}
    found = []
    for each in compared:
        ours = [(told, own.get(_key(told.prompt, told.baseline, told.candidate))) for told in each.pairs]
        whys = {pair.id: _difference(told, pair.answers) for told, pair in ours if pair}
        by_id = {pair.id: pair for _, pair in ours if pair}
        pairs = {pair.id: pair for pair in disputed.shown(whys, by_id, kept, said, settled)}
        every = [pairs[pair.id] if pair else _other(told) for told, pair in ours]
        found.append(ComparedPairs(each.name, each.why, each.stale, every))
    return found


def _why(comparison: Comparison, campaign: str) -> str:
    """The reason in words why a comparison rests on a campaign; empty if it does not."""
    if comparison.spec.judged.campaign == campaign:
        return JUDGED
    return LEARNED if any(each.resource == campaign for each in comparison.evidence) else ""


def _key(prompt: str, *answers: str) -> tuple[str, frozenset[str]]:
    """The key that recognizes a pair in whatever order of its answers."""
    return prompt, frozenset(answers)


def _own(
    rows: Rows, unit: Unit, campaign: str, told: Sequence[DifferingPair]
) -> dict[tuple[str, frozenset[str]], Pair]:
    """The ordinary pairs of a campaign that have the answers of these."""
    table, texts = rows.tables.pairs, {json.dumps(text) for each in told for text in (each.baseline, each.candidate)}
    among = (table.c.campaign == campaign, table.c.kind == str(Kind.ORDINARY), table.c.first.in_(sorted(texts)))
    ids = unit.tx.execute(select(table.c.id).where(*among)).scalars().all()
    return {_key(as_lines(each.prompt), *each.answers): each for each in rows.pairs(unit, campaign, ids).values()}


def _difference(told: DifferingPair, answers: tuple[str, str]) -> str:
    """The difference in words, of the candidate's place among these answers."""
    place = ("first", "second")[answers.index(told.candidate)]
    won = Proportion.of(told.judged * told.judgements, told.judgements)
    return f"the reward model expects the {place} answer to win in {told.promised:.0%}; it won {won} of judgements"


def _other(told: DifferingPair) -> DisputedPair:
    """A pair that is not one of the campaign."""
    answers = (told.baseline, told.candidate)
    return DisputedPair("", _difference(told, answers), PairTexts([("prompt", told.prompt)], answers), [])
