"""Stalls: which ranks of an attempt are silent or do not compute, and which of them is to blame.

A part of a gang sees only that the others wait: it reports the state of its ranks, and decides on its own if the
scheduler did not within `verdict` seconds.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from tutti.contracts.scheduler.v1 import Assignment, ReportStallRequest
from tutti.contracts.trainer.v1 import Dump, RankMessage
from tutti.model.stall import Gang, Standing, examine
from tutti.platform.heartbeattimeout import Doubling
from tutti.trainer import autopsy
from tutti.trainer.agent import messages
from tutti.trainer.agent.places import Loss, Place
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.lifeline import WAITING_FOR_BUFFER, WAITING_FOR_WEIGHTS

log = logging.getLogger(__name__)


class StallWatch:
    """Watches the ranks of an attempt. Times are monotonic seconds; `worked_at` is when a rank last computed.

    `size` is the number of ranks on all nodes.
    """

    def __init__(
        self,
        assignment: Assignment,
        settings: AgentSettings,
        places: Mapping[int, Place],
        doubling: Doubling,
        *,
        report: Callable[[ReportStallRequest], None],
        now: float,
    ) -> None:
        self._assignment, self._settings, self._places, self._doubling = assignment, settings, places, doubling
        self._report = report
        self.size, self.worked_at = 0, now
        self._deadline = 0.0
        self._silent: tuple[int, ...] = ()
        self._suspects, self._decides = False, False
        self._inquiry, self._joined, self._settled = 0, 0, 0
        self._verdict_at: float | None = None

    def inquired(self, inquiry: int, *, settled: int, now: float) -> bool:
        """Return true if an inquiry of the scheduler is new; after one that is `settled`, the ranks continue."""
        if settled > self._settled:
            self._settled, self._verdict_at, self.worked_at = settled, None, now
        if inquiry <= max(settled, self._joined):
            return False
        self._inquiry = self._joined = inquiry
        return True

    def joined(self, inquiry: int) -> None:
        """The scheduler counts the last report for this inquiry."""
        self._joined = max(self._joined, inquiry)

    def answer_without_ranks(self) -> None:
        """Answer an inquiry before there are ranks."""
        self._tell([autopsy.staging(rank) for rank in self._assignment.ranks], {}, seconds=0.0)

    def answer(self, now: float) -> None:
        """Collect flight records to answer an inquiry with."""
        self._suspects, self._silent = False, ()
        self._dump(now, self._settings.silence / 2)

    def suspects(self, now: float) -> bool:
        """Return true if ranks are silent or none computes; flight records are then asked for."""
        if self._verdict_at is not None and now < self._verdict_at:
            return False
        settings, places = self._settings, list(self._places.values())
        silent = tuple(place.rank for place in places if self._is_silent(place, now))
        ready = any(place.met and not place.finished for place in places)
        loaded = any(place.kernel for place in places)
        loading = max(settings.stall, settings.meeting + self._doubling.limit(settings.start))
        stalled = ready and now - self.worked_at > (settings.stall if loaded else loading)
        if places and not silent:
            self._doubling.well(now)
        if silent or stalled:
            self._decides = len(self._assignment.ranks) == self.size or self._verdict_at is not None
            self._suspects, self._silent = True, silent
            self._dump(now, settings.dump)
        self._verdict_at = None
        return bool(silent or stalled)

    def due(self, now: float) -> bool:
        """Return true if the flight records are here, or the wait for them is over."""
        missing = [place for place in self._places.values() if place.record is None and not place.process.ended]
        return not missing or now >= self._deadline

    def examine(self, now: float) -> Loss | None:
        """Return the loss of the ranks to blame, or report the state of all ranks to the scheduler and return None."""
        records = {place.rank: place.record for place in self._places.values() if place.record is not None}
        if self._silent and not set(self._silent) - set(records):
            self._suspects = False  # they were late, not dead
        waiting = [record.phase == WAITING_FOR_WEIGHTS for record in records.values()]
        stores = any(record.phase == WAITING_FOR_BUFFER for record in records.values())
        if self._suspects and not self._silent and (stores or all(waiting)):
            self._suspects, self.worked_at = False, now
        if not (self._suspects or self._inquiry):
            return None
        standings = [self._standing(place, now) for place in self._places.values()]
        groups = autopsy.groups_of(records.values(), self.size)
        if not self._suspects:
            self._tell(standings, groups, seconds=0.0)
            return None
        silent = [each.rank for each in standings if each.silent]
        if silent:
            self._doubling.missed(now)
        since = min((self._places[rank].heard for rank in silent), default=self.worked_at)
        for rank, record in records.items():
            log.warning("flight record of rank %d:\n%s\n%s", rank, record.stacks, record.collectives)
        if self._decides:
            return self._decide(standings, groups, now, seconds=now - since)
        self._tell(standings, groups, seconds=now - since)
        self._verdict_at = now + self._settings.verdict
        return None

    def _is_silent(self, place: Place, now: float) -> bool:
        limit = self._settings.silence / 2 if place.met else self._settings.start
        return not place.process.ended and now - place.heard > self._doubling.limit(limit)

    def _dump(self, now: float, seconds: float) -> None:
        """Ask the ranks for flight records, which are awaited for `seconds`."""
        self._deadline = now + seconds
        for place in self._places.values():
            place.record = None
            place.process.send(RankMessage(dump=Dump()))

    def _standing(self, place: Place, now: float) -> Standing:
        idle = now - place.worked_at
        if place.record is None and not (self._suspects or self._is_silent(place, now)):
            return autopsy.unclear(place.rank, crossed=place.step, idle=idle, finished=place.finished)
        if place.record is None and place.process.ended:
            return autopsy.unclear(place.rank, crossed=place.step, idle=idle, finished=True)
        return autopsy.standing_of(place.rank, place.record, crossed=place.step, idle=idle)

    def _decide(
        self, standings: Sequence[Standing], groups: autopsy.Groups, now: float, *, seconds: float
    ) -> Loss | None:
        """Return the loss of the ranks to blame as far as the ranks of this node show it; None if all are excused."""
        whole = len(self._assignment.ranks) == self.size
        own = dict.fromkeys(self._assignment.ranks, "" if whole else self._settings.name)
        others = dict.fromkeys(set(range(self.size)) - own.keys(), "another node")
        finding = examine(Gang({**own, **others}, groups), standings, seconds=seconds)
        if finding.excused:
            self.worked_at = now
            return None
        guilty = tuple(rank for rank in finding.guilty if rank in own)
        return Loss(guilty or (min(own),), finding.cause, consequence=not guilty)

    def _tell(self, standings: Sequence[Standing], groups: autopsy.Groups, *, seconds: float) -> None:
        self._report(
            messages.stall_report(
                self._assignment, self._settings.name, standings, groups, inquiry=self._inquiry, seconds=seconds
            )
        )
        self._inquiry = 0
