"""Three brokers, and a Postgres primary with a synchronous standby, while records and rows are written all the time
through our adapters: the leader of the partition is killed, and the primary is. Writing goes on, and what was
acknowledged is there.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import kafka
import psutil
import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from sqlalchemy import BigInteger, Column, MetaData, Table, insert, select

from tests.faults.processes import until
from tests.stack.conftest import local
from tests.stack.standby import Standby, standby
from tutti.backbone import Kind, NewRecord, Topic, TopicPartition, Transaction
from tutti.backbone.connect import open_log
from tutti.backbone.database import Conflict, DatabaseUnavailable
from tutti.backbone.eventlog import LogUnavailable
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.postgres.database import PostgresDatabase
from tutti.platform.gauges import waits_for_standby

TOPIC = Topic("written", Kind.FACT, 1)
BROKERS = ("kafka", "kafka-2", "kafka-3")
metadata = MetaData()
rows = Table("written", metadata, Column("number", BigInteger, primary_key=True))
WRITES = 5
"""Acknowledged after a fault: writing goes on."""
SECONDS = 60.0


class Writer:
    """A thread that writes numbers, one after another; `acknowledged` has each with the time when it was."""

    def __init__(self, write: Callable[[int], None]) -> None:
        self._write = write
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[float] = []

    def __enter__(self) -> "Writer":
        self._thread.start()
        self.goes_on("the first writes")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def goes_on(self, what: str) -> None:
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + WRITES, seconds=SECONDS, what=f"writes after {what}")

    def gap_since(self, moment: float) -> float:
        """The longest time without an acknowledgement since then."""
        times = [moment, *(at for at in self.acknowledged if at > moment)]
        return max(after - before for before, after in pairwise(times))

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.01):
            with suppress(LogUnavailable, DatabaseUnavailable):  # the outcome is unknown: once more
                self._write(number)
                self.acknowledged.append(time.monotonic())
                number += 1


class Servers:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.urls: dict[str, str] = {}

    def up(self, *names: str) -> None:
        started = local("servers.py", "up", *names, "--replicated", "--dir", self.folder, "-o", "json")
        assert started.code == 0, started.err
        self.urls |= {each["name"]: each["url"] for each in json.loads(started.out)}

    def process(self, name: str) -> psutil.Process:
        found = json.loads((self.folder / name / "pid.json").read_text())
        return psutil.Process(found["pid"])

    def kill(self, name: str) -> float:
        """SIGKILL; when it was."""
        self.process(name).kill()
        return time.monotonic()


@pytest.fixture(scope="module")
def servers(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("replicated") / "servers")
    try:
        found.up(*BROKERS, "postgres")
        yield found
    finally:
        for broker in BROKERS:  # the last ones would wait half a minute for a quorum before they stop
            with suppress(OSError, psutil.NoSuchProcess):
                found.kill(broker)
        local("servers.py", "wipe", "--dir", found.folder)


@pytest.fixture(scope="module")
def records(servers: Servers) -> Iterator[Writer]:
    with closing(open_log(servers.urls["kafka"])) as log:
        log.ensure([TOPIC])
        with Writer(lambda number: log.append([NewRecord(TOPIC.name, "k", str(number).encode())])) as writer:
            yield writer


@pytest.fixture(scope="module")
def second(servers: Servers) -> Iterator[Standby]:
    with standby(servers.urls["postgres"], servers.folder.parent / "standby") as found:
        yield found


@pytest.fixture(scope="module")
def database(second: Standby) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(second.url, schema="written", pool_size=2)) as opened:
        opened.create(metadata)
        yield opened


@pytest.fixture(scope="module")
def written(servers: Servers, database: PostgresDatabase) -> Iterator[Writer]:
    def write(number: int) -> None:
        with suppress(Conflict):  # it is there, and was not acknowledged
            database.run(lambda tx: tx.execute(insert(rows), {"number": number}))

    with Writer(write) as writer:
        yield writer


def lost(database: PostgresDatabase, writer: Writer) -> set[int]:
    acknowledged = set(range(len(writer.acknowledged)))

    def read(tx: Transaction) -> set[int]:
        return {row.number for row in tx.execute(select(rows.c.number))}

    return acknowledged - database.run(read)


def test_each_topic_has_three_replicas_and_two_must_be_in_sync(servers: Servers, records: Writer) -> None:
    with closing(kafka.KafkaAdminClient(**Brokers.parse(servers.urls["kafka"]).settings())) as admin:
        (topic,) = admin.describe_topics([TOPIC.name])
        assert [sorted(each["replica_nodes"]) for each in topic["partitions"]] == [[1, 2, 3]]
        resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC.name, ["min.insync.replicas"])
        found = admin.describe_configs([resource], config_filter="all")["topic"][TOPIC.name]
        assert found["min.insync.replicas"]["value"] == "2"


def test_records_go_on_without_the_leader_of_their_partition_and_none_is_lost(
    servers: Servers, records: Writer
) -> None:
    with closing(kafka.KafkaAdminClient(**Brokers.parse(servers.urls["kafka"]).settings())) as admin:
        (topic,) = admin.describe_topics([TOPIC.name])
    leader = BROKERS[topic["partitions"][0]["leader_id"] - 1]
    killed = servers.kill(leader)
    records.goes_on(f"the death of {leader}")
    print(f"leader killed: longest gap between acknowledged records {records.gap_since(killed):.1f} s")
    servers.up(leader)
    records.goes_on(f"the return of {leader}")
    acknowledged = len(records.acknowledged)
    with closing(open_log(servers.urls["kafka"])) as log:
        seen: set[int] = set()
        offset = 0
        while found := log.read(TopicPartition(TOPIC.name, 0), offset, 2000):
            seen |= {int(record.value) for record in found}
            offset = found[-1].offset + 1
            if acknowledged <= len(seen):
                break
    assert set(range(acknowledged)) - seen == set()
    print(f"{acknowledged} records acknowledged, none lost")


def test_a_standby_that_is_promoted_is_followed_and_no_row_is_lost(
    servers: Servers, second: Standby, database: PostgresDatabase, written: Writer
) -> None:
    assert database.run(waits_for_standby)
    killed = servers.kill("postgres")
    second.promote()
    written.goes_on("the death of the primary")
    print(f"primary killed, standby promoted: longest gap between acknowledged rows {written.gap_since(killed):.1f} s")
    assert lost(database, written) == set()
    assert not database.run(waits_for_standby)
    print(f"{len(written.acknowledged)} rows acknowledged, none lost")
