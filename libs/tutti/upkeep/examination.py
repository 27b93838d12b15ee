"""The examination: the checks of the doctor that need no long look, repeated while the host runs.

Promises: what was last seen is returned at once, and metrics show which store did not answer and whether all belong to
the stack of the start; a dependency that hangs
delays the next examination, and nothing else.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tutti.backbone import Blobs, EventLog, Isolation
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.delivery import outbox
from tutti.chassis.metrics import metrics
from tutti.chassis.runtime.dependencies import STORES, DependencyChecks, dependency
from tutti.chassis.runtime.loops import LoopThread
from tutti.chassis.runtime.parts import Parts
from tutti.chassis.runtime.probe import answer, look_at_log
from tutti.chassis.service import Finding, Host, Service

BACKLOG = 1000  # unsent events that are too many
STACK = "stack"
NO_BLOB = "stack/looks/none"
WELL_SECONDS, BAD_SECONDS = 10.0, 2.0


@dataclass(frozen=True)
class Administered:
    """One service of this process, with everything that works for it."""

    service: Service
    host: Host
    parts: Parts
    threads: tuple[LoopThread, ...]


class Examination:
    """A Loop over the services of this process, which share the event log; `why_not` says why one does not serve.

    `compare` raises ForeignStore if the stores of a service do not belong to the stack of the start any more.
    """

    name = "examination"

    def __init__(
        self,
        services: Sequence[Administered],
        log: EventLog,
        why_not: Callable[[str], str],
        compare: Callable[[str], None],
    ) -> None:
        self._services, self._log, self._why_not, self._looks = list(services), log, why_not, DependencyChecks()
        self._seen: dict[str, Sequence[Finding]] = {}
        self._compare = compare
        self._foreign = metrics.gauge(
            "store_foreign", "1 while a store was emptied or belongs to another stack, else 0", labels=["service"]
        )
        self._away = metrics.gauge("store_away", "1 while a store does not answer, else 0", labels=["service", "store"])

    @property
    def interval(self) -> float:
        well = all(each.ok for findings in self._seen.values() for each in findings)
        return WELL_SECONDS if well else BAD_SECONDS

    def step(self) -> bool:
        seen: dict[str, Sequence[Finding]] = {}
        for each in self._services:
            name = each.service.name
            seen[name] = findings = list(self.of(each))
            for store in (finding for finding in findings if finding.check in STORES):
                self._away.labels(name, store.check).set(0 if store.ok else 1)
            for stack in (finding for finding in findings if finding.check == STACK):
                self._foreign.labels(name).set(0 if stack.ok else 1)
        self._seen = seen
        return False

    def seen(self, service: str) -> Sequence[Finding]:
        """The findings about a service of the last examination; empty before the first."""
        return self._seen.get(service, ())

    def of(self, each: Administered) -> Iterator[Finding]:
        """Examine a service now. Nothing follows the finding that its database is away."""
        reason = self._why_not(each.service.name)
        yield Finding("health", not reason, reason or "serving")
        topic = next((topic for one in self._services for topic in one.parts.topics), None)
        log = self._looks.at("event log", partial(look_at_log, self._log, topic))
        yield dependency("event log", log)
        blobs = self._looks.at("blobs", partial(_look_at_blobs, each.host.blobs))
        yield dependency("blobs", blobs)
        away = self._looks.at(f"database of {each.service.name}", partial(answer, each.host.database))
        yield dependency("database", away)
        if away:
            return
        if not log and not blobs:  # or they fail because of that
            foreign = self._looks.at(f"stack of {each.service.name}", partial(self._compare, each.service.name))
            yield Finding(STACK, not foreign, foreign or "the stores are those of the start")
            troubles = [thread.trouble for thread in each.threads if thread.trouble]
            yield Finding("loops", not troubles, "; ".join(troubles) or "they work")
        unsealed = each.parts.sealer.trouble
        yield Finding("audit trail", not unsealed, unsealed or "sealed records are as they were")
        try:
            yield from self._rows(each)
        except Exception as error:
            yield dependency("database", f"{type(error).__name__}: {error}")

    def _rows(self, each: Administered) -> Iterator[Finding]:
        unsent, consumer = each.host.units.run(outbox.count_unsent), each.parts.consumer
        yield Finding(
            "outbox",
            unsent < BACKLOG,
            f"{unsent} events wait for the relay" + ("; is the event log reachable?" if unsent >= BACKLOG else ""),
        )
        if (leadership := each.parts.leadership) is not None:
            leader = each.host.units.run(leadership.leader, isolation=Isolation.READ_COMMITTED)
            yield Finding("leader", leader.works, str(leader) + ("" if leader.works else "; restart the service"))
        letters = 0 if consumer is None else len(consumer.dead_letters())
        settle = f"; look with `tutti events dead ls`, settle with `tutti events dead settle {each.service.name} ID`"
        yield Finding("dead letters", not letters, f"{letters} dead letters" + (settle if letters else ""))


def _look_at_blobs(blobs: Blobs) -> None:
    """Let a store answer, about a blob that nobody has. Raises BlobError."""
    with contextlib.suppress(BlobMissing):
        blobs.stat(NO_BLOB)
