"""The work of a simulated crowd: its annotators lease pairs and deliver judgements until the campaign has enough.

Promises: who judges what follows from the rows of the campaign, so that a crowd that was interrupted goes on as it
would have; it does nothing that an annotator with a browser could not do.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from tutti.annotation.campaigns import CROWDS
from tutti.annotation.desk import MOST_LEASED, Desk, Shown
from tutti.annotation.rows import RETRACTED, SUSPENDED, Rows
from tutti.annotation.simulated import Simulated, simulated
from tutti.annotation.tables import Tables
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host, TaskKind
from tutti.chassis.store.unit import Unit
from tutti.chassis.store.words import clipped
from tutti.chassis.tasks import Finish, Retry, Task, TaskContext, WorkFailed
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PAUSED,
    Campaign,
)

TOGETHER = 25
"""Annotators who lease in one transaction, and deliver in one."""
LOOK_SECONDS = 0.5
Leased = Mapping[str, Sequence[Shown]]


class Crowds:
    def __init__(self, host: Host, tables: Tables, rows: Rows, desk: Desk) -> None:
        self._units, self._tables, self._rows, self._desk = host.units, tables, rows, desk

    def task(self) -> TaskKind:
        return TaskKind(name=CROWDS, run=self._run, on_failed=self._failed)

    def _run(self, context: TaskContext) -> Finish:
        name = context.task.resource
        campaign, annotators = self._units.run(
            lambda unit: (self._tables.campaigns.get(unit, name), self._rows.annotators(unit, name))
        )
        crowd = _crowd(campaign, [each.key for each in annotators])
        while True:
            context.check()
            campaign, leased = self._units.run(lambda unit: self._lease(unit, name))
            if campaign.state == CAMPAIGN_STATE_PAUSED:
                raise Retry("waits until the campaign is resumed", LOOK_SECONDS)
            if campaign.state == CAMPAIGN_STATE_OPEN and not leased:
                self._wait(name)
            if campaign.state != CAMPAIGN_STATE_OPEN:
                return lambda unit: None
            said = {key: _said(campaign, crowd, key, pairs) for key, pairs in leased.items()}
            context.check()
            self._units.run(partial(self._deliver, name=name, said=said))

    def _wait(self, name: str) -> None:
        """Nobody was given a pair: raises Retry where a round follows, WorkFailed where none can."""

        def look(unit: Unit) -> tuple[int, Leased]:
            lacking = self._rows.judged(unit, name)[2]
            return lacking, self._lease(unit, name)[1]  # the next round may have begun since nobody was given a pair

        lacking, leased = self._units.run(look)
        if lacking and not leased:
            raise WorkFailed(
                f"{lacking:,} pairs lack judgements, and no annotator of the crowd is left who may judge them; add "
                f"annotators or lower the overlap"
            )
        raise Retry("waits for the next round", LOOK_SECONDS)

    def _lease(self, unit: Unit, name: str) -> tuple[Campaign, Leased]:
        """Pairs for the annotators who were given the fewest, or all that is open already."""
        campaign = self._tables.campaigns.get(unit, name)
        if campaign.state != CAMPAIGN_STATE_OPEN:
            return campaign, {}
        every = [each for each in self._rows.annotators(unit, name) if each.state not in (RETRACTED, SUSPENDED)]
        holding = self._rows.holders(unit, name)
        if waiting := [each for each in every if each.key in holding]:
            return campaign, {each.key: self._desk.lease(unit, campaign, each, MOST_LEASED).pairs for each in waiting}
        leased = dict[str, Sequence[Shown]]()
        for each in sorted(every, key=lambda each: (each.places, each.key)):
            pairs = self._desk.lease(unit, campaign, each, MOST_LEASED).pairs
            if pairs:
                leased[each.key] = pairs
            if len(leased) == TOGETHER:
                break
        return campaign, leased

    def _deliver(self, unit: Unit, name: str, said: Mapping[str, Sequence[object]]) -> None:
        campaign = self._tables.campaigns.get(unit, name)
        for key, judgements in sorted(said.items()):
            annotator = self._rows.annotator(unit, name, key=key)
            if annotator is not None:
                self._desk.deliver(unit, campaign, annotator, judgements)

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        campaign = self._tables.campaigns.lock(unit, task.resource)
        if campaign.state in (CAMPAIGN_STATE_OPEN, CAMPAIGN_STATE_PAUSED):
            campaign.state, campaign.reason = CAMPAIGN_STATE_FAILED, clipped(reason)
            campaign.ended_at.FromDatetime(unit.now)
            self._tables.campaigns.put(unit, campaign)


def _crowd(campaign: Campaign, keys: Sequence[str]) -> Simulated:
    """Raises WorkFailed."""
    try:
        return simulated(campaign.name, campaign.spec.simulated.crowd, keys, campaign.spec.seed)
    except InvalidField as error:
        raise WorkFailed(f"the crowd cannot be simulated: {error.message}") from error


def _said(campaign: Campaign, crowd: Simulated, key: str, pairs: Sequence[Shown]) -> list[Mapping[str, object]]:
    axes = [axis.name for axis in campaign.spec.axes]
    return [crowd.judgement(key, pair, campaign.guideline, axes) for pair in pairs]
