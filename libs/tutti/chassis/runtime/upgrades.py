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
from tutti.chassis.backup.databases import held, histories, on_server
from tutti.chassis.runtime.healthfile import UPGRADE
from tutti.chassis.runtime.signals import Stop
from tutti.chassis.service import Service
from tutti.chassis.store import stack

LOOK_SECONDS = 1.0
log = logging.getLogger(__name__)


class StoppedWaiting(Exception):
    """The process was told to stop while it waited for an upgrade, or for the repair of its stores."""


@dataclass(frozen=True)
class Upgrade:
    """Revisions of the tables of a service: of the database, empty where none is recorded, and those that it lacks."""

    service: str
    before: str
    due: tuple[str, ...]

    @property
    def after(self) -> str:
        return self.due[-1] if self.due else self.before


def planned(url: str, folder: Path, services: Sequence[str]) -> list[Upgrade]:
    """Return the upgrades of the services that have tables; changes nothing. Raises DatabaseError.

    `folder` has the SQLite files, unless `url` is that of a server.
    """
    known = histories()
    found = []
    for service in held(url, folder):
        if service in services:
            with closing(open_database(url, service, connections=2)) as database:
                seen = _held(database)
            if seen.tables - {stack.TABLE}:
                due = migrations.lacking(seen.revision, known[service])
                found.append(Upgrade(service, seen.revision, tuple(due)))
    return found


def perform(url: str, upgrades: Sequence[Upgrade]) -> Iterator[Upgrade]:
    """Upgrade the tables of each service, and yield it afterwards. Raises DatabaseError.

    On a server, the tables are changed as the owner of their schema.
    """
    due = [each for each in upgrades if each.due]
    urls = dict.fromkeys((each.service for each in due), url)
    if due and on_server(url):
        from tutti.backbone.postgres import copies

        urls = copies.as_owners(url, list(urls))
    for each in due:
        with closing(open_database(urls[each.service], each.service, connections=2)) as database:
            database.create(MetaData(), histories()[each.service])
        yield each


def older(services: Sequence[tuple[Service, Database, MetaData]]) -> dict[str, str]:
    """Return the services whose tables are older than this version, each with the reason why it does not serve.

    Raises NewerSchema, DatabaseError.
    """
    reasons = {}
    for service, database, metadata in services:
        if service.migrations is None:
            continue
        seen = _held(database)
        if seen.tables.isdisjoint(metadata.tables):
            continue
        if due := migrations.lacking(seen.revision, service.migrations):
            reasons[service.name] = (
                f"waits: its tables have revision {seen.revision or 'none'}, this version needs {due[-1]}; "
                f"run `{UPGRADE}` of this version"
            )
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


def _held(database: Database) -> migrations.Held:
    return database.run(migrations.held, isolation=Isolation.READ_COMMITTED)
