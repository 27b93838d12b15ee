"""The judgements of a campaign that count at this time, read from its rows.

Promises: what decides which judgements count is read before them, so that a change in between is seen by comparing
`excluded` again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.annotation.judging import guidelines, verdicts
from tutti.annotation.judging.records import RETRACTED
from tutti.annotation.judging.rows import Rows
from tutti.annotation.publishing.sets import JudgementSet, collect
from tutti.annotation.publishing.weighing import below_one
from tutti.chassis.store.unit import Unit
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PAUSED,
    CAMPAIGN_STATE_QUALIFYING,
    Campaign,
)

ASSIGNING = (CAMPAIGN_STATE_QUALIFYING, CAMPAIGN_STATE_OPEN)
"""States in which a campaign assigns pairs, those of its qualification included."""
UNDER_WAY = (*ASSIGNING, CAMPAIGN_STATE_PAUSED)
"""States in which a campaign takes judgements."""


@dataclass(frozen=True)
class Collected:
    """A campaign and the set of its judgements that count. `excluded` says which do not, `newest` is the time of the
    last judgement that arrived, in microseconds; 0 if there is none.
    """

    campaign: Campaign
    found: JudgementSet
    excluded: Sequence[object]
    newest: int


def collected(rows: Rows, unit: Unit, name: str) -> Collected:
    """Read the judgements of a campaign. Raises NotFound."""
    newest, out, campaign = rows.newest(unit, name), excluded(rows, unit, name), rows.tables.campaigns.get(unit, name)
    kept = list(rows.kept(unit, name, counted=True))
    pairs = rows.pairs(unit, name, {each.pair for each in kept})
    bases = {pair.base for pair in pairs.values() if pair.base >= 0}
    by_number = {pair.number: pair for pair in pairs.values()}
    by_number |= {number: rows.numbered(unit, name, number) for number in sorted(bases - by_number.keys())}
    found = collect(kept, pairs, by_number, below_one(rows.annotators(unit, name)))
    return Collected(campaign, found, out, newest)


def excluded(rows: Rows, unit: Unit, name: str) -> Sequence[object]:
    """The annotators, the pairs and the versions of the guideline whose judgements do not count, and the weights of
    those that do not count fully.
    """
    annotators = rows.annotators(unit, name)
    return (
        {each.key for each in annotators if each.state == RETRACTED},
        verdicts.left_out(rows.tables, unit, name),
        guidelines.retracted(rows.tables, unit, name),
        below_one(annotators),
    )
