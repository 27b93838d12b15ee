"""The work of a simulated crowd: its annotators lease pairs and deliver judgements until the campaign has enough.

They send the calls of the annotators' page, each under its own name and the role of simulators. They act in waves: up
to TOGETHER annotators lease, those who were given the fewest pairs first, and then deliver. Virtual time passes when
pairs are settled, so all pairs of a wave expire at the virtual time of its beginning. A wave that was interrupted is
completed: until somebody has delivered, the other annotators lease too.

Promises: who judges what follows from the rows of the campaign, so that a crowd that was interrupted goes on as it
would have; it does nothing that an annotator with a browser could not do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.annotation.campaigns.campaigns import CROWDS
from tutti.annotation.campaigns.collecting import ASSIGNING, UNDER_WAY
from tutti.annotation.campaigns.desk import MOST_LEASED, VIRTUAL
from tutti.annotation.judging.records import RETRACTED, SUSPENDED
from tutti.annotation.judging.rows import Rows
from tutti.annotation.judging.simulated import Simulated, simulated, user_of
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host, TaskKind
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Retry, Task, TaskContext, WorkFailed
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_PAUSED,
    Campaign,
)
from tutti.web.pages import Site

TOGETHER = 25
"""Annotators who lease before the first of them delivers."""
LOOK_SECONDS = 0.5
PAUSED = "waits until the campaign is resumed"


@dataclass(frozen=True)
class Look:
    """A campaign at the virtual time `now`: the pairs that lack judgements in this round, and the annotators who lease
    next, by key, in their order; nobody does between two rounds.
    """

    campaign: Campaign
    now: int
    lacking: int
    order: Sequence[str]


class Crowds:
    def __init__(self, host: Host, tables: Tables, rows: Rows, site: Site) -> None:
        self._units, self._tables, self._rows, self._site = host.units, tables, rows, site

    def task(self) -> TaskKind:
        return TaskKind(name=CROWDS, run=self._run, on_failed=self._failed)

    def _run(self, context: TaskContext) -> Finish:
        name = context.task.resource
        campaign, annotators = self._units.run(
            lambda unit: (self._tables.campaigns.get(unit, name), self._rows.annotators(unit, name))
        )
        crowd = _crowd(campaign, [each.key for each in annotators])
        in_vain: Look | None = None
        while True:
            context.check()
            look = self._units.run(lambda unit: self._look(unit, name))
            if look.campaign.state == CAMPAIGN_STATE_PAUSED:
                raise Retry(PAUSED, LOOK_SECONDS)
            if look.campaign.state not in ASSIGNING:
                return lambda unit: None
            if look == in_vain:
                raise WorkFailed(
                    f"{look.lacking:,} pairs lack judgements, and no annotator of the crowd is left who may judge "
                    f"them; add annotators or lower the overlap"
                )
            if not look.order:
                raise Retry("waits for the next round", LOOK_SECONDS)
            accepted = sum(
                self._deliver(context, look.campaign, crowd, key, pairs)
                for key, pairs in sorted(self._leased(context, look).items())
            )
            in_vain = None if accepted else look

    def _look(self, unit: Unit, name: str) -> Look:
        campaign, now = self._tables.campaigns.get(unit, name), self._rows.settled(unit, name)
        lacking, open_ = self._rows.judged(unit, name)[2], self._rows.holders(unit, name)
        every = [each for each in self._rows.annotators(unit, name) if each.state not in (RETRACTED, SUSPENDED)]
        every.sort(key=lambda each: (each.places, each.key))
        order = [each.key for each in every if each.key in open_]
        if VIRTUAL + now in open_.values() or (lacking and not order):
            order += [each.key for each in every if each.key not in open_]
        return Look(campaign, now, lacking, order)

    def _leased(self, context: TaskContext, look: Look) -> Mapping[str, Sequence[Any]]:
        """Pairs for the first TOGETHER annotators who are given some, by key."""
        found: dict[str, Sequence[Any]] = {}
        for key in look.order:
            context.check()
            lease = self._call(look.campaign, key, "leases", count=MOST_LEASED, at=look.now)
            if lease["state"] == "guideline_changed":
                self._call(look.campaign, key, "guideline", version=look.campaign.guideline)
                lease = self._call(look.campaign, key, "leases", count=MOST_LEASED, at=look.now)
            if lease["state"] == "paused":
                raise Retry(PAUSED, LOOK_SECONDS)
            if lease["pairs"]:
                found[key] = lease["pairs"]
            if len(found) == TOGETHER:
                break
        return found

    def _deliver(
        self, context: TaskContext, campaign: Campaign, crowd: Simulated, key: str, pairs: Sequence[Any]
    ) -> int:
        """The number of judgements that were accepted."""
        context.check()
        axes = [axis.name for axis in campaign.spec.axes]
        judgements = [crowd.judgement(key, pair, campaign.guideline, axes) for pair in pairs]
        return len(self._call(campaign, key, "judgements", judgements=judgements)["accepted"])

    def _call(self, campaign: Campaign, key: str, call: str, **body: object) -> Any:
        """The answer to a call of the annotators' page. Raises Problem."""
        sent = {"campaign": campaign.name.removeprefix("campaigns/"), **body}
        return self._site.simulate(user_of(campaign.name, key), f"/annotation/api/{call}", sent)

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        campaign = self._tables.campaigns.lock(unit, task.resource)
        if campaign.state in UNDER_WAY:
            campaign.state, campaign.reason = CAMPAIGN_STATE_FAILED, clipped(reason)
            campaign.ended_at.FromDatetime(unit.now)
            self._tables.campaigns.put(unit, campaign)


def _crowd(campaign: Campaign, keys: Sequence[str]) -> Simulated:
    """Raises WorkFailed."""
    try:
        return simulated(campaign.name, campaign.spec.simulated.crowd, keys, campaign.spec.seed)
    except InvalidField as error:
        raise WorkFailed(f"the crowd cannot be simulated: {error.message}") from error
