"""The ports over a bad network: an address where nobody is, a server that is cut off in one or both directions, and one
that is slow. Every call ends by its deadline and names the server, and what was acknowledged is there afterwards.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select
from tests.faults.processes import until
from tests.network import BOTH, Network, Way, dead_address, through
from tests.scale import SOAK, scale

from tutti.backbone import EventLog, Kind, NewRecord, Topic, TopicPartition
from tutti.backbone.blobs import BlobsUnavailable, StoreFull
from tutti.backbone.database import Conflict, DatabaseUnavailable, Readable, StorageFull
from tutti.backbone.eventlog import LogUnavailable
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.eventlog import KafkaEventLog
from tutti.backbone.postgres.database import PostgresDatabase
from tutti.backbone.s3.blobs import S3Blobs

soak = pytest.mark.skipif(not SOAK, reason="a soak row; tests/contract/hung_test.py has servers that hang")
PATIENCE = 2.0
"""Seconds of each wait of a client for its server."""
LONGEST = 60.0
"""Seconds in which each call has ended, with all repetitions of the client libraries."""
WAYS: dict[str, Collection[Way]] = {"both ways": BOTH, "there": {Way.THERE}, "back": {Way.BACK}}
metadata = MetaData()
numbers = Table("numbers", metadata, Column("number", Integer, primary_key=True))
Calls = dict[str, Callable[[], object]]


@dataclass
class Port:
    """A client of a server that reads and writes numbers. `calls` are all ways to ask something of the server."""

    write: Callable[[int], object]
    read: Callable[[], set[int]]
    calls: Calls
    unavailable: tuple[type[Exception], ...]
    close: Callable[[], None]


def kafka_port(url: str, name: str, patience: float) -> Port:
    log = KafkaEventLog(Brokers.parse(url), deadline_seconds=patience)
    topic = Topic(f"{name}.facts", Kind.FACT, 1)
    at = TopicPartition(topic.name, 0)

    def read() -> set[int]:
        found: set[int] = set()
        offset = 0
        while records := log.read(at, offset):
            found |= {int(each.value) for each in records}
            offset = records[-1].offset + 1
        return found

    return Port(
        write=lambda number: _appended(log, topic, number),
        read=read,
        calls={
            "ensure": lambda: log.ensure([topic]),
            "append": lambda: log.append([NewRecord(topic.name, "k", b"-1")]),
            "subscribe": lambda: log.subscribe(name, [topic.name]).close(),
            "end offsets": lambda: log.end_offsets(topic.name),
            "committed": lambda: log.committed(name, topic.name),
            "read": lambda: log.read(at, 0),
        },
        unavailable=(LogUnavailable,),
        close=log.close,
    )


def _appended(log: EventLog, topic: Topic, number: int) -> None:
    if not number:
        log.ensure([topic])
    log.append([NewRecord(topic.name, "k", str(number).encode())])


def postgres_port(url: str, name: str, patience: float) -> Port:
    database = PostgresDatabase(url, schema=name, deadline_seconds=patience)

    def write(number: int) -> None:
        if not number:
            database.create(metadata)
        with suppress(Conflict):  # it is there, and was not acknowledged
            database.run(lambda tx: tx.execute(insert(numbers), {"number": number}) and None)

    def read() -> set[int]:
        return set(database.run(lambda tx: tx.execute(select(numbers.c.number)).scalars().all()))

    return Port(
        write=write,
        read=read,
        calls={
            "run": read,
            "insert": lambda: database.run(lambda tx: tx.insert(numbers, [{"number": -1}])),
            "create": lambda: database.create(metadata),
            "publish": lambda: database.publish(Readable({}, {})),
        },
        unavailable=(DatabaseUnavailable, StorageFull),
        close=database.close,
    )


def s3_port(url: str, name: str, patience: float) -> Port:
    parts = urlsplit(url)

    def opened() -> S3Blobs:
        return S3Blobs(
            f"{parts.hostname}:{parts.port}",
            access_key=parts.username or "",
            secret_key=parts.password or "",
            bucket=name,
            secure=False,
            deadline_seconds=patience,
        )

    blobs = opened()
    prefix = "owner/numbers/"
    return Port(
        write=lambda number: blobs.put_if_absent(f"{prefix}{number}", str(number).encode()),
        read=lambda: {int(blobs.get(each.key)) for each in blobs.list(prefix)},
        calls={
            "open": opened,
            "put": lambda: blobs.put_if_absent("owner/others/a", b"a"),
            "get": lambda: blobs.get(f"{prefix}0"),
            "get a range": lambda: blobs.get_range(f"{prefix}0", 0, 1),
            "stat": lambda: blobs.stat(f"{prefix}0"),
            "list": lambda: list(blobs.list(prefix)),
            "delete": lambda: blobs.delete(f"{prefix}none"),
        },
        unavailable=(BlobsUnavailable, StoreFull),
        close=blobs.close,
    )


PORTS: dict[str, Callable[[str, str, float], Port]] = {"kafka": kafka_port, "postgres": postgres_port, "s3": s3_port}


def ends_by_its_deadline(calls: Calls, unavailable: tuple[type[Exception], ...], place: str) -> None:
    """Every call is refused with the name of the server; all are asked at once."""

    def ask(call: Callable[[], object]) -> str:
        with pytest.raises(unavailable) as refused:
            call()
        return str(refused.value)

    with ThreadPoolExecutor(len(calls)) as pool:
        asked = {name: pool.submit(ask, call) for name, call in calls.items()}
        for name, answer in asked.items():
            assert place in answer.result(LONGEST), name


def test_every_call_to_a_dead_address_ends_and_names_it(
    kafka_url: str, postgres_url: str, s3_url: str, unique: str
) -> None:
    """A dead address swallows packets: it neither refuses a connection, as a dead server does, nor accepts one."""
    with dead_address() as address:
        log = kafka_port(through(kafka_url, address), unique, 0.5)
        database = postgres_port(through(postgres_url, address), unique, 0.5)
        ends = [
            lambda: ends_by_its_deadline(log.calls, log.unavailable, address),
            lambda: ends_by_its_deadline(database.calls, database.unavailable, address),
            lambda: ends_by_its_deadline(
                {"open": lambda: s3_port(through(s3_url, address), unique, 0.5)}, (BlobsUnavailable,), address
            ),
        ]
        with closing(log), closing(database), ThreadPoolExecutor(len(ends)) as pool:
            for done in [pool.submit(end) for end in ends]:
                done.result(LONGEST)


@pytest.fixture(params=list(PORTS))
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    with closing(Network(request.getfixturevalue(f"{request.param}_url"))) as made:
        yield made


@pytest.fixture
def port(request: pytest.FixtureRequest, network: Network, unique: str) -> Iterator[Port]:
    made = PORTS[request.node.callspec.params["network"]](network.url, unique, PATIENCE)
    with closing(made):
        made.write(0)
        yield made


class Writer(threading.Thread):
    """Writes one number after another, each until it is acknowledged; `refused` has the words of each refusal."""

    def __init__(self, port: Port) -> None:
        super().__init__(daemon=True)
        self._port, self._over = port, threading.Event()
        self.acknowledged = 0
        self.refused: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.01):
            try:
                self._port.write(self.acknowledged + 1)
                self.acknowledged += 1
            except self._port.unavailable as error:
                self.refused.append(str(error))

    def goes_on(self) -> None:
        before = self.acknowledged
        until(lambda: self.acknowledged > before + 2, seconds=2 * LONGEST, what=f"writes after {self.refused[-1:]}")

    def stop(self) -> None:
        self._over.set()
        self.join(LONGEST)
        assert not self.is_alive()


@soak
@pytest.mark.parametrize("ways", list(WAYS))
def test_every_call_ends_while_the_server_is_cut_off_and_nothing_is_lost(
    network: Network, port: Port, ways: str
) -> None:
    writer = Writer(port)
    writer.start()
    writer.goes_on()
    for _ in range(scale(test=1, soak=3)):
        with network.cut(WAYS[ways]):
            ends_by_its_deadline(port.calls, port.unavailable, network.address)
        writer.goes_on()
    writer.stop()
    assert set(range(writer.acknowledged + 1)) - port.read() == set()
    print(f"count of acknowledged writes over {ways} cuts: {writer.acknowledged}, none lost")


@soak
def test_a_slow_and_narrow_network_changes_no_result(
    request: pytest.FixtureRequest, network: Network, unique: str
) -> None:
    """Half a second for each exchange, and 64 KiB a second in each direction."""
    kind = request.node.callspec.params["network"]
    with network.slow(0.5, bytes_per_second=64 << 10), closing(PORTS[kind](network.url, unique, 10.0)) as port:
        port.write(0)
        writer = Writer(port)
        writer.start()
        writer.goes_on()
        writer.stop()
        assert port.read() == set(range(writer.acknowledged + 1))
