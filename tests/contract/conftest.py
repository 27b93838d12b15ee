"""Where the contract suites run: each adapter with what a suite may do to it."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, text

from tutti.backbone import Database, Kind, ManualClock, NewRecord, Record, SeededRandomness, Topic, Transaction
from tutti.backbone.connect import open_database, open_log
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.backbone.embedded.partitioner import partition_of
from tutti.backbone.eventlog import EventLog


class EmbeddedLog:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "events.db"
        self.log: EventLog = EmbeddedEventLog(self._path)

    def unreachable(self) -> EventLog:
        return EmbeddedEventLog(self._path)  # the file is ours already

    def force_compaction(self, topic: str) -> None:
        del topic
        self.log.compact()

    def expire(self, topic: Topic) -> None:
        self.log.close()
        clock = ManualClock()
        clock.advance(400 * 24 * 3600)
        self.log = EmbeddedEventLog(self._path, clock=clock)
        self.log.compact()

    def impatient(self) -> EventLog:
        return EmbeddedEventLog(self._folder / "impatient.db", max_poll_seconds=0.2)

    def crash(self, topic: str) -> None:
        """Append in another process that is killed, then open the file again."""
        self.log.close()
        program = (
            "import os, signal, sys; from pathlib import Path; from tutti.backbone import NewRecord\n"
            "from tutti.backbone.embedded.eventlog import EmbeddedEventLog\n"
            "log = EmbeddedEventLog(Path(sys.argv[1]))\n"
            "for line in sys.stdin: log.append([NewRecord(line.strip(), 'k', b'from the dead')])\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, self._path], input=topic, text=True, timeout=400, check=False
        )
        assert done.returncode == -signal.SIGKILL
        self.log = EmbeddedEventLog(self._path)

    def close(self) -> None:
        self.log.close()


class KafkaLog:
    def __init__(self, url: str, own_server: Callable[[str], Any]) -> None:
        self._url, self._own_server = url, own_server
        self.log: EventLog = open_log(url)

    def unreachable(self) -> EventLog:
        from tutti.backbone.kafka.brokers import Brokers
        from tutti.backbone.kafka.eventlog import KafkaEventLog

        return KafkaEventLog(Brokers(["127.0.0.1:9"]), deadline_seconds=1)

    def force_compaction(self, topic: str) -> None:
        """Close the active segments, which a broker never compacts, and make every byte worth cleaning."""
        self._configure(topic, {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.001"})
        for _ in range(2):
            time.sleep(0.06)  # the age of a segment is what is waited for
            count = len(self.log.end_offsets(topic))
            keys = {partition_of(f"filler{n}", count): f"filler{n}" for n in range(200)}
            self.log.append([NewRecord(topic, key, b"") for key in keys.values()])

    def expire(self, topic: Topic) -> None:
        self._configure(topic.name, {"retention.ms": "1"})

    def impatient(self) -> EventLog:
        from tutti.backbone.kafka.brokers import Brokers
        from tutti.backbone.kafka.eventlog import KafkaEventLog

        return KafkaEventLog(Brokers.parse(self._url), session_seconds=1, max_poll_seconds=1)

    def crash(self, topic: str) -> None:
        self.log.close()
        server = self._own_server("kafka")
        with closing(open_log(server.up())) as log:
            log.ensure([Topic(topic, Kind.FACT, 2)])
            log.append([NewRecord(topic, "k", b"before")])
            log.append([NewRecord(topic, "k", b"from the dead")])
            with closing(log.subscribe("survivors", [topic])) as member:
                seen: list[Record] = []
                while len(seen) < 2:
                    seen += member.poll(5)
                server.kill()
                thread = threading.Thread(target=server.up)
                thread.start()
                log.append([NewRecord(topic, "k", b"waited for the broker")])
                thread.join()
                while len(seen) < 3 or seen[-1].value != b"waited for the broker":
                    seen += member.poll(5)
                positions = {seen[-1].at: seen[-1].offset + 1}
                member.commit(positions, member.generation)
                assert log.committed("survivors", topic) == positions
        self.log = open_log(server.up())

    def close(self) -> None:
        self.log.close()

    def _configure(self, topic: str, configs: dict[str, str]) -> None:
        import kafka
        from kafka.admin import ConfigResource, ConfigResourceType

        from tutti.backbone.kafka.brokers import Brokers

        with closing(kafka.KafkaAdminClient(**Brokers.parse(self._url).settings())) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])


class EmbeddedPlace:
    overlaps = False

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.db"
        self.db: Database = self.open()

    def open(self) -> Database:
        """The file is injected with lost transactions: no test may depend on their absence."""
        return EmbeddedDatabase(self._path, failures=SeededRandomness(7), failure_probability=0.1)

    def client(self) -> Database:
        return self.db  # one process owns the file: its threads are the clients

    def neighbour(self) -> Database:
        return EmbeddedDatabase(self._path.with_name("other.db"))

    def unreachable(self) -> Database:
        return EmbeddedDatabase(self._path)

    def crash(self, metadata: MetaData) -> None:
        """Commit in a process that is killed in its next transaction."""
        del metadata
        self.db.close()
        program = (
            "import os, signal, sys; from pathlib import Path; from sqlalchemy import text\n"
            "from tutti.backbone.embedded.database import EmbeddedDatabase\n"
            "db = EmbeddedDatabase(Path(sys.argv[1]))\n"
            "db.run(lambda tx: tx.execute(text(\"INSERT INTO accounts VALUES ('kept', 1)\")) and None)\n"
            "def second(tx):\n"
            "    tx.execute(text(\"INSERT INTO accounts VALUES ('undone', 1)\"))\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "db.run(second)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, self._path], timeout=400, check=False)
        assert done.returncode == -signal.SIGKILL
        self.db = self.open()

    def close(self) -> None:
        self.db.close()


class PostgresPlace:
    overlaps = True

    def __init__(self, url: str, name: str, own_server: Callable[[str], Any]) -> None:
        self._url, self._name, self._own_server = url, name, own_server
        self._clients: list[Database] = []
        self.db: Database = self.client()

    def client(self) -> Database:
        self._clients.append(open_database(self._url, self._name))
        return self._clients[-1]

    def unreachable(self) -> Database:
        from tutti.backbone.postgres.database import PostgresDatabase

        return PostgresDatabase("postgresql://nobody:x@127.0.0.1:9/none", schema="s", deadline_seconds=0.3)

    def neighbour(self) -> Database:
        return open_database(self._url, f"{self._name}other")

    def crash(self, metadata: MetaData) -> None:
        server = self._own_server("postgres")
        self._url = server.up()
        self.db = self.client()
        self.db.create(metadata)
        self.db.run(lambda tx: tx.execute(text("INSERT INTO accounts VALUES ('kept', 1)")) and None)
        runs: list[int] = []

        def second(tx: Transaction) -> None:
            runs.append(1)
            tx.execute(text("INSERT INTO accounts VALUES ('undone', 1)"))
            if len(runs) > 1:
                raise InterruptedError("run again after the crash, and given up")
            server.kill()
            server.up()
            tx.execute(text("SELECT * FROM accounts"))

        with pytest.raises(InterruptedError):
            self.db.run(second)

    def close(self) -> None:
        for client in self._clients:
            client.close()


@pytest.fixture(params=["embedded", "kafka"])
def log_place(
    request: pytest.FixtureRequest, tmp_path: Path, own_server: Callable[[str], Any]
) -> Iterator[EmbeddedLog | KafkaLog]:
    made = EmbeddedLog(tmp_path) if request.param == "embedded" else None
    place = made or KafkaLog(request.getfixturevalue("kafka_url"), own_server)
    yield place
    place.close()


@pytest.fixture(params=["embedded", "postgres"])
def database_place(
    request: pytest.FixtureRequest, tmp_path: Path, unique: str, own_server: Callable[[str], Any]
) -> Iterator[EmbeddedPlace | PostgresPlace]:
    made = EmbeddedPlace(tmp_path, unique) if request.param == "embedded" else None
    place = made or PostgresPlace(request.getfixturevalue("postgres_url"), unique, own_server)
    yield place
    place.close()
