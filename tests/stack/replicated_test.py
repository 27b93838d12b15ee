"""Three brokers, and a Postgres primary with a synchronous standby, while records and rows are written all the time
through our adapters: the leader of the partition is killed, the primary is killed and hangs, the standby hangs.
Writing goes on, and what was acknowledged is there.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import kafka
import psutil
import psycopg
import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from sqlalchemy import BigInteger, Column, MetaData, Table, insert, select, text

from tests.e2e.flips import flip_table
from tests.faults.processes import until
from tests.stack.conftest import local
from tutti.backbone import Kind, NewRecord, Topic, TopicPartition, Transaction
from tutti.backbone.connect import open_log
from tutti.backbone.database import Conflict, DatabaseDamaged, DatabaseUnavailable
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

    def record(self) -> dict[str, Any]:
        path = self.folder / "pair" / "record.json"
        return dict(json.loads(path.read_text())) if path.exists() else {"term": 1, "eligible": False}

    def await_pair(self, term: int = 0) -> dict[str, Any]:
        """Until the standby may replace the primary; the record."""
        until(
            lambda: self.record()["eligible"] and self.record()["term"] >= term,
            seconds=SECONDS,
            what=f"a standby that may lead: {(self.folder / 'promoter' / 'log').read_text()[-2000:]}",
        )
        return self.record()


@pytest.fixture(scope="module")
def servers(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("replicated") / "servers")
    try:
        found.up(*BROKERS, "promoter", "postgres")
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
def database(servers: Servers) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(servers.urls["postgres"], schema="written", pool_size=2)) as opened:
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


def test_the_standby_leads_after_the_death_of_the_primary_and_no_row_is_lost(
    servers: Servers, database: PostgresDatabase, written: Writer
) -> None:
    before = servers.await_pair()
    written.goes_on("the standby follows")
    killed = servers.kill(before["primary"])
    # Its backends answer until they notice, or are fenced.
    until(lambda: servers.record()["term"] > before["term"], seconds=SECONDS, what="a promotion")
    written.goes_on("the death of the primary")
    print(f"primary killed, standby promoted: longest gap between acknowledged rows {written.gap_since(killed):.1f} s")
    assert lost(database, written) == set()
    after = servers.await_pair(before["term"] + 1)  # the former primary follows
    assert after["primary"] != before["primary"]
    assert lost(database, written) == set()
    print(f"{len(written.acknowledged)} rows acknowledged, none lost")


def test_a_page_that_is_damaged_on_the_primary_is_whole_on_the_standby(
    servers: Servers, database: PostgresDatabase, written: Writer
) -> None:
    def count(tx: Transaction) -> int:
        return int(tx.execute(text("SELECT count(*) FROM public.plain")).scalar_one())

    before = servers.await_pair()
    with psycopg.connect(servers.urls["postgres"], autocommit=True) as connection:
        flip_table(connection)
    with pytest.raises(DatabaseDamaged, match="invalid page in block 0"):
        database.run(count)
    servers.kill(before["primary"])
    until(lambda: servers.record()["term"] > before["term"], seconds=SECONDS, what="a promotion")
    written.goes_on("the death of the primary whose page is damaged")
    assert database.run(count) == 100
    servers.await_pair(before["term"] + 1)  # the former primary is a copy of the other one
    assert lost(database, written) == set()


def test_commits_go_on_while_the_only_standby_hangs_and_nobody_promotes_it(
    servers: Servers, database: PostgresDatabase, written: Writer
) -> None:
    before = servers.await_pair()
    primary, standby = before["primary"], next(each for each in ("postgres", "postgres-2") if each != before["primary"])
    main = servers.process(standby)
    hung = [main, *main.children()]
    began = time.monotonic()
    for process in hung:
        process.suspend()
    try:
        until(lambda: not servers.record()["eligible"], seconds=SECONDS, what="a record that the standby lacks commits")
        written.goes_on("the standby hangs")
        assert not database.run(waits_for_standby)
        print(f"standby hangs: longest gap between acknowledged rows {written.gap_since(began):.1f} s")
        servers.kill(primary)
        written.goes_on("the death of the primary without a standby")
        assert servers.record() == {**before, "eligible": False}
    finally:
        for process in hung:
            with suppress(psutil.NoSuchProcess):
                process.resume()
    assert servers.await_pair() == before
    assert database.run(waits_for_standby)
    assert lost(database, written) == set()


def test_a_promoter_that_was_killed_fences_a_primary_that_hangs(
    servers: Servers, database: PostgresDatabase, written: Writer
) -> None:
    before = servers.await_pair()
    main = servers.process(before["primary"])
    hung = [main, *main.children()]
    servers.kill("promoter")
    began = time.monotonic()
    for process in hung:
        process.suspend()
    servers.up("promoter")
    until(lambda: servers.record()["term"] == before["term"] + 1, seconds=SECONDS, what="a promotion")
    until(lambda: not any(each.is_running() for each in hung), seconds=SECONDS, what="a fenced primary")
    written.goes_on("the fence")
    print(f"primary hangs, standby promoted: longest gap between acknowledged rows {written.gap_since(began):.1f} s")
    assert lost(database, written) == set()
