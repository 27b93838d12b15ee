"""The identity of a stack: one random id in its blob store, its event log and each of its databases.

Promises: it is compared before a service touches its tables; a store that is empty although the stack is known to the
others, and a store of another stack, are refused with the command that adopts it; a first start that is killed between
two stores continues at the next start. It is compared again while the services run, and no id is written then.

The id is written to the blob store first, then to the event log, then to the database of a service, and last the blob
store is told that this service has joined. It is read in the opposite order. Hence a store that another process is
about to write never looks emptied.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, Table, delete, insert, select

from tutti.backbone import (
    Blobs,
    Database,
    EventLog,
    Isolation,
    Kind,
    NewRecord,
    Randomness,
    Topic,
    TopicPartition,
    Transaction,
)
from tutti.backbone.blobs import BlobExists, BlobMissing
from tutti.backbone.connect import hidden, open_blobs, open_database, open_log
from tutti.backbone.database import Conflict
from tutti.backbone.eventlog import UnknownTopic
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.settings import Settings
from tutti.chassis.store.tables import NAME

TOPIC = Topic("stack.identity", Kind.STATE, partitions=1)
KEY = "stack"
BLOB = "stack/identity/id"
MEMBERS = "stack/members/"
ADOPT = "tutti stack adopt"
_PLACE = TopicPartition(TOPIC.name, 0)
# Not among the tables of the service: it is read before they are upgraded, perhaps in the database of another stack.
METADATA = MetaData()
TABLE = "stack_identity"
_TABLE = Table(
    TABLE,
    METADATA,
    Column("row", Integer, primary_key=True, autoincrement=False),
    Column("id", NAME, nullable=False),
)


class ForeignStore(Exception):
    """A store was emptied, or belongs to another stack; the message names it and what to do."""


@dataclass(frozen=True)
class Stores:
    """The stores of one process. `databases` is by service; `places` says in messages where a store is."""

    blobs: Blobs
    log: EventLog
    databases: Mapping[str, Database]
    places: Mapping[str, str]

    def named(self, store: str) -> str:
        """A store as messages call it, such as "the event log (kafka://kafka:9092)"."""
        kind, _, service = store.partition(" ")
        words = {"blobs": "the blob store", "log": "the event log", "database": f"the database of {service}"}[kind]
        return f"{words} ({self.places[kind]})"


@dataclass(frozen=True)
class StackIds:
    """The id in each store, empty where there is none: `blobs`, `log`, `database SERVICE`.

    `members` are the services whose databases had the id once, as the blob store knows.
    """

    ids: Mapping[str, str]
    members: frozenset[str]

    @property
    def known(self) -> list[str]:
        """The different ids, sorted; one where all is well, none in a new stack."""
        return sorted({each for each in self.ids.values() if each})

    def emptied(self) -> list[str]:
        """The stores that had the id and lost it."""
        joined = any(self.ids[store] for store in self.ids if store.startswith("database ")) or self.members
        lost = [store for store in self.ids if store.removeprefix("database ") in self.members and not self.ids[store]]
        if self.ids["log"] == "" and joined:
            lost.append("log")
        if self.ids["blobs"] == "" and (self.ids["log"] or joined):
            lost.append("blobs")
        return sorted(lost)


def places(values: Settings, data_dir: DataDir) -> dict[str, str]:
    """Return where each kind of store is, without passwords."""
    return {
        "blobs": hidden(values.blobs.url or data_dir.blobs_url),
        "log": hidden(values.log.url or data_dir.log_url),
        "database": hidden(values.database.url or data_dir.database_url),
    }


@contextmanager
def opened(values: Settings, data_dir: DataDir, services: Sequence[str]) -> Iterator[Stores]:
    """Yield the stores of `services`, which no platform may hold. Raises BlobError, EventLogError, DatabaseError."""
    with ExitStack() as stack:
        blobs = stack.enter_context(closing(open_blobs(values.blobs.url or data_dir.blobs_url)))
        log = stack.enter_context(closing(open_log(values.log.url or data_dir.log_url)))
        url = values.database.url or data_dir.database_url
        databases = {name: stack.enter_context(closing(open_database(url, name))) for name in services}
        yield Stores(blobs, log, databases, places(values, data_dir))


def look(stores: Stores) -> StackIds:
    """Read what every store holds. Raises BlobError, EventLogError, DatabaseError."""
    members = frozenset(stat.key.removeprefix(MEMBERS) for stat in stores.blobs.list(MEMBERS))
    ids = {f"database {service}": _in_database(database) for service, database in stores.databases.items()}
    ids["log"] = in_log(stores.log)
    ids["blobs"] = _in_blobs(stores.blobs)
    return StackIds(ids, members)


def join(stores: Stores, randomness: Randomness) -> str:
    """Return the id of the stack, after writing it where a new stack or a new service lacks it. Raises ForeignStore."""
    seen = look(stores)
    if len(seen.known) > 1:
        raise ForeignStore(
            f"{_listed(stores, seen)}: these stores belong to different stacks. Correct the URL that names another "
            f"stack's store; to make them one stack all the same, run `{ADOPT} --id ID` with the id to keep"
        )
    if emptied := seen.emptied():
        what = " and ".join(stores.named(store) for store in emptied)
        raise ForeignStore(
            f"{what}: found no id of a stack there, expected {seen.known[0] if seen.known else 'one'}. It was emptied, "
            f"or its URL names another store. Restore it or correct the URL; to go on with it as it is, run `{ADOPT}`"
        )
    identity = seen.known[0] if seen.known else f"{randomness.bits(128):032x}"
    return _write(stores, seen, identity)


def compare(stores: Stores, identity: str) -> None:
    """Raise ForeignStore if a store of a running platform no longer has the id that it had at its start.

    Raises BlobError, EventLogError, DatabaseError.
    """
    held = {f"database {service}": _in_database(database) for service, database in stores.databases.items()}
    held |= {"log": _read_log(stores.log), "blobs": _in_blobs(stores.blobs)}
    if wrong := sorted(store for store, each in held.items() if each != identity):
        what = " and ".join(f"{stores.named(store)} has {held[store] or 'no id'}" for store in wrong)
        raise ForeignStore(
            f"{what}, expected {identity} as at the start: it was emptied or replaced while the platform ran, and a "
            f"restart will be refused. Stop the platform, then restore the store or correct its URL; to go on with it "
            f"as it is, run `{ADOPT}`"
        )


def adopt(stores: Stores, identity: str = "") -> str:
    """Write one id to every store, whatever they held; by default the one that was found. Raises ForeignStore."""
    seen = look(stores)
    if not identity and len(seen.known) != 1:
        if not (seen.known or seen.members):
            raise ForeignStore("no store has an id yet: start the platform, which makes one")
        raise ForeignStore(f"{_listed(stores, seen)}: choose the id to keep with --id")
    identity = identity or seen.known[0]
    if seen.ids["blobs"] not in ("", identity):
        stores.blobs.delete(BLOB)
    for store, held in seen.ids.items():
        if store.startswith("database ") and held not in ("", identity):
            stores.databases[store.removeprefix("database ")].run(lambda tx: tx.execute(delete(_TABLE)) and None)
    remaining = {store: held if held == identity else "" for store, held in seen.ids.items()}
    return _write(stores, StackIds(remaining, seen.members), identity)


def _write(stores: Stores, seen: StackIds, identity: str) -> str:
    """Write the id where it is missing; the id that holds, another one if another process was faster."""
    if not seen.ids["blobs"]:
        try:
            stores.blobs.put_if_absent(BLOB, f"{identity}\n".encode())
        except BlobExists:
            identity = _in_blobs(stores.blobs)
    if not seen.ids["log"]:
        into_log(stores.log, identity)
    for service, database in stores.databases.items():
        if not seen.ids[f"database {service}"]:
            _into_database(database, identity)
        if service not in seen.members:
            stores.blobs.put_if_absent(f"{MEMBERS}{service}", b"")
    return identity


def _listed(stores: Stores, seen: StackIds) -> str:
    return ", ".join(f"{stores.named(store)} has {held or 'no id'}" for store, held in sorted(seen.ids.items()))


def _in_blobs(blobs: Blobs) -> str:
    try:
        return blobs.get(BLOB).decode().strip()
    except BlobMissing:
        return ""


def in_log(log: EventLog) -> str:
    log.ensure([TOPIC])
    return _read_log(log)


def _read_log(log: EventLog) -> str:
    found, offset = "", 0
    try:
        while records := log.read(_PLACE, offset):
            found = next((record.value.decode() for record in reversed(records) if record.key == KEY), found)
            offset = records[-1].offset + 1
    except UnknownTopic:
        return ""
    return found


def into_log(log: EventLog, identity: str) -> None:
    """Write the id to an event log."""
    log.ensure([TOPIC])
    log.append([NewRecord(TOPIC.name, KEY, identity.encode())])


def _in_database(database: Database) -> str:
    database.create(METADATA)

    def read(tx: Transaction) -> str:
        return str(tx.execute(select(_TABLE.c.id)).scalar() or "")

    return database.run(read, isolation=Isolation.READ_COMMITTED)


def _into_database(database: Database, identity: str) -> None:
    try:
        database.run(lambda tx: tx.execute(insert(_TABLE).values(row=1, id=identity)) and None)
    except Conflict as error:
        if (held := _in_database(database)) != identity:
            raise ForeignStore(f"another process gave the database the id {held} meanwhile: try again") from error
