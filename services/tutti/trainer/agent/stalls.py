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
from tutti.trainer.agent.localranks import LocalRank, Loss
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
        local_ranks: Mapping[int, LocalRank],
        doubling: Doubling,
        *,
        report: Callable[[ReportStallRequest], None],
        now: float,
    ) -> None:
        self._assignment, self._settings, self._local_ranks, self._doubling = (
            assignment,
            settings,
            local_ranks,
            doubling,
        )
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
        settings, local_ranks = self._settings, list(self._local_ranks.values())
        silent = tuple(local.rank for local in local_ranks if self._is_silent(local, now))
        ready = any(local.met and not local.finished for local in local_ranks)
        loaded = any(local.kernel for local in local_ranks)
        loading = max(settings.stall, settings.meeting + self._doubling.limit(settings.start))
        stalled = ready and now - self.worked_at > (settings.stall if loaded else loading)
        if local_ranks and not silent:
            self._doubling.well(now)
        if silent or stalled:
            self._decides = len(self._assignment.ranks) == self.size or self._verdict_at is not None
            self._suspects, self._silent = True, silent
            self._dump(now, settings.dump)
        self._verdict_at = None
        return bool(silent or stalled)

    def due(self, now: float) -> bool:
        """Return true if the flight records are here, or the wait for them is over."""
        missing = [local for local in self._local_ranks.values() if local.record is None and not local.process.ended]
        return not missing or now >= self._deadline

    def examine(self, now: float) -> Loss | None:
        """Return the loss of the ranks to blame, or report the state of all ranks to the scheduler and return None."""
        records = {local.rank: local.record for local in self._local_ranks.values() if local.record is not None}
        if self._silent and not set(self._silent) - set(records):
            self._suspects = False  # they were late, not dead
        waiting = [record.phase == WAITING_FOR_WEIGHTS for record in records.values()]
        stores = any(record.phase == WAITING_FOR_BUFFER for record in records.values())
        if self._suspects and not self._silent and (stores or all(waiting)):
            self._suspects, self.worked_at = False, now
        if not (self._suspects or self._inquiry):
            return None
        standings = [self._standing(local, now) for local in self._local_ranks.values()]
        groups = autopsy.groups_of(records.values(), self.size)
        if not self._suspects:
            self._tell(standings, groups, seconds=0.0)
            return None
        silent = [each.rank for each in standings if each.silent]
        if silent:
            self._doubling.missed(now)
        since = min((self._local_ranks[rank].heard for rank in silent), default=self.worked_at)
        for rank, record in records.items():
            log.warning("flight record of rank %d:\n%s\n%s", rank, record.stacks, record.collectives)
        if self._decides:
            return self._decide(standings, groups, now, seconds=now - since)
        self._tell(standings, groups, seconds=now - since)
        self._verdict_at = now + self._settings.verdict
        return None

    def _is_silent(self, local: LocalRank, now: float) -> bool:
        limit = self._settings.silence / 2 if local.met else self._settings.start
        return not local.process.ended and now - local.heard > self._doubling.limit(limit)

    def _dump(self, now: float, seconds: float) -> None:
        """Ask the ranks for flight records, which are awaited for `seconds`."""
        self._deadline = now + seconds
        for local in self._local_ranks.values():
            local.record = None
            local.process.send(RankMessage(dump=Dump()))

    def _standing(self, local: LocalRank, now: float) -> Standing:
        idle = now - local.worked_at
        if local.record is None and not (self._suspects or self._is_silent(local, now)):
            return autopsy.unclear(local.rank, crossed=local.step, idle=idle, finished=local.finished)
        if local.record is None and local.process.ended:
            return autopsy.unclear(local.rank, crossed=local.step, idle=idle, finished=True)
        return autopsy.standing_of(local.rank, local.record, crossed=local.step, idle=idle)

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
