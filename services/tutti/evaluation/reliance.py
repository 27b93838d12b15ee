"""Reliance: which releases and comparisons rely on which resources, so that a change of these is looked at.

Promises: an event about a resource wakes everything that relies on it; what no event told is found by looking at times.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import Column, MetaData, delete, select

from tutti.chassis.events.event import Event
from tutti.chassis.rpc import kinds
from tutti.chassis.service import Consumed, Host
from tutti.chassis.store.tables import NAME
from tutti.chassis.store.tables import declare as declare_table
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler
from tutti.contracts.annotation.v1 import Campaign
from tutti.contracts.committer.v1 import Checkpoint
from tutti.evaluation.evidence import Find, Item


class Relied:
    """The table of what active releases and comparisons rely on; the column `release` has the name of either."""

    def __init__(self, metadata: MetaData) -> None:
        self.table = declare_table(
            "relied_on",
            metadata,
            Column("release", NAME, primary_key=True),
            Column("resource", NAME, primary_key=True, index=True),
        )

    def keep(self, unit: Unit, release: str, items: Sequence[Item]) -> None:
        rows = [{"release": release, "resource": item.resource} for item in items]
        unit.tx.insert(self.table, rows)

    def by(self, unit: Unit, resources: set[str]) -> list[str]:
        """The releases and comparisons that rely on one of these."""
        asked = select(self.table.c.release).where(self.table.c.resource.in_(sorted(resources))).distinct()
        return sorted(row.release for row in unit.tx.execute(asked).all())

    def forget(self, unit: Unit, release: str) -> None:
        unit.tx.execute(delete(self.table).where(self.table.c.release == release))


def consumes(relied: Relied, reconcilers: Mapping[str, Reconciler]) -> list[Consumed]:
    """Wake whatever relies on a resource that has changed; `reconcilers` by the plural of the kind."""

    def changed(unit: Unit, events: Sequence[Event]) -> None:
        for name in relied.by(unit, {event.subject for event in events}):
            unit.on_commit(partial(reconcilers[name.partition("/")[0]].wake, name))

    return [Consumed(kind, changed) for kind in (Campaign, Checkpoint)]


def asked(host: Host) -> Find:
    """Ask the owner of a resource for it."""

    def find(name: str) -> object:
        kind = kinds.named(name.partition("/")[0])
        return kind.get(host.channel(kind.owner), name)

    return find
