"""Upgrades: the revisions that the databases of services lack.

Promises: all databases are looked at before the first is changed, so one of a newer version stops the upgrade of all;
each is upgraded in a transaction of its own, one process at a time, so after a kill the same call goes on; a service
that waits for an upgrade changes nothing, and a signal ends its wait at once.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import MetaData

from tutti.backbone import Database, Isolation, migrations
from tutti.backbone.connect import open_database
from tutti.backbone.migrations import History
from tutti.chassis.runtime.healthfile import UPGRADE
from tutti.chassis.runtime.signals import Stop
from tutti.chassis.service import Service
from tutti.chassis.store import stack
from tutti.chassis.store.histories import histories
from tutti.upkeep.backup.databases import held, installed, on_server

LOOK_SECONDS = 1.0
log = logging.getLogger(__name__)


class StoppedWaiting(Exception):
    """The process was told to stop while it waited for an upgrade, or for the repair of its stores."""


@dataclass(frozen=True)
class Step:
    """Revisions of one history: that of the database, empty where none is recorded, and those that it lacks."""

    before: str
    due: tuple[str, ...]

    @property
    def after(self) -> str:
        return self.due[-1] if self.due else self.before

    def __str__(self) -> str:
        return f"{self.before or 'none'} -> {self.after}" if self.due else self.before


@dataclass(frozen=True)
class Upgrade:
    """The revisions of the database of a service: of the chassis tables, and of the service's own."""

    service: str
    chassis: Step
    own: Step

    @property
    def due(self) -> bool:
        return bool(self.chassis.due or self.own.due)


def planned(url: str, folder: Path, services: Sequence[str]) -> list[Upgrade]:
    """Return the upgrades of the services that have tables; changes nothing. Raises DatabaseError.

    `folder` has the SQLite files, unless `url` is that of a server.
    """
    known = installed()
    found = []
    for service in held(url, folder):
        if service in services:
            with closing(open_database(url, service, connections=2)) as database:
                seen = _held(database, known[service])
            if seen.tables - {stack.TABLE}:
                chassis, own = (Step(before, tuple(of.lacking(before))) for of, before in seen.revisions.items())
                found.append(Upgrade(service, chassis, own))
    return found


def perform(url: str, upgrades: Sequence[Upgrade]) -> Iterator[Upgrade]:
    """Upgrade the tables of each service, and yield it afterwards. Raises DatabaseError.

    On a server, the tables are changed as the owner of their schema.
    """
    known = installed()
    due = [each for each in upgrades if each.due]
    urls = dict.fromkeys((each.service for each in due), url)
    if due and on_server(url):
        from tutti.backbone.postgres import copies

        urls = copies.as_owners(url, list(urls))
    for each in due:
        with closing(open_database(urls[each.service], each.service, connections=2)) as database:
            database.create(MetaData(), known[each.service])
        yield each


def older(services: Sequence[tuple[Service, Database, MetaData]]) -> dict[str, str]:
    """Return the services whose tables are older than this version, each with the reason why it does not serve.

    Raises NewerSchema, DatabaseError.
    """
    reasons = {}
    for service, database, metadata in services:
        seen = _held(database, histories(service.name, service.migrations))
        if seen.tables.isdisjoint(metadata.tables):
            continue
        lacking = [
            f"{of.tables} have revision {revision or 'none'}, this version needs {due[-1]}"
            for of, revision in seen.revisions.items()
            if (due := of.lacking(revision))
        ]
        if lacking:
            reasons[service.name] = f"waits: {', '.join(lacking)}; run `{UPGRADE}` of this version"
    return reasons


def await_upgrade(
    services: Sequence[tuple[Service, Database, MetaData]],
    tell: Callable[[Mapping[str, str]], None],
    stop: Stop,
) -> None:
    """Return once no tables are older than this version; `tell` is given the reasons at every look.

    Raises StoppedWaiting, NewerSchema, DatabaseError.
    """
    before: dict[str, str] = {}
    while reasons := older(services):
        for service, reason in reasons.items():
            if reason != before.get(service):
                log.warning("%s %s", service, reason)
        tell(reasons)
        if stop.wait(LOOK_SECONDS):
            raise StoppedWaiting("told to stop while it waited for an upgrade of its tables")
        before = reasons
    if before:
        log.info("the tables of %s were upgraded: goes on", ", ".join(before))


def _held(database: Database, known: Sequence[History]) -> migrations.Held:
    return database.run(lambda tx: migrations.held(tx, known), isolation=Isolation.READ_COMMITTED)
