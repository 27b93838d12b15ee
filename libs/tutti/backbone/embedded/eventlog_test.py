"""What the embedded log adds to its port; the port itself is tested in tests/contract."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.backbone.eventlog import EventLogError, Kind, LogUnavailable, NewRecord, StaleGeneration, Topic

TOPIC = Topic("scheduler.jobs.facts", Kind.FACT, 3)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedEventLog]:
    with closing(EmbeddedEventLog(tmp_path / "events.db")) as opened:
        opened.ensure([TOPIC])
        yield opened


def test_appends_that_wait_share_one_commit(log: EmbeddedEventLog) -> None:
    """The owner is held up while many threads append; then one transaction serves them all."""
    commits: list[str] = []
    entered, held = threading.Event(), threading.Event()
    log._store._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)

    def hold_up() -> None:
        entered.set()
        held.wait(30)

    busy = threading.Thread(target=log._owner.call, args=(hold_up,))
    busy.start()
    entered.wait(30)
    threads = [threading.Thread(target=log.append, args=([NewRecord(TOPIC.name, f"k{n}", b"")],)) for n in range(20)]
    for thread in threads:
        thread.start()
    deadline = threading.Event()
    while len(log._tickets) < 20:
        assert not deadline.wait(0.001)
    held.set()
    for thread in [*threads, busy]:
        thread.join(30)
    assert sum(log.end_offsets(TOPIC.name).values()) == 20
    assert len(commits) == 1


def test_an_append_that_fails_fails_alone(log: EmbeddedEventLog) -> None:
    """A commit that the disk refuses is the error of who ran it; the others try again by themselves."""
    log._store._connection.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON records WHEN new.key = 'bad' "
        "BEGIN SELECT raise(ABORT, 'refused by the test'); END"
    )
    errors: list[Exception] = []

    def append(key: str) -> None:
        try:
            log.append([NewRecord(TOPIC.name, key, b"")])
        except LogUnavailable as error:
            errors.append(error)

    threads = [threading.Thread(target=append, args=(f"k{n}" if n != 5 else "bad",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    appended = {record.key for at in log.end_offsets(TOPIC.name) for record in log.read(at, 0)}
    assert "bad" not in appended
    assert len(appended) + len(errors) == 12


def test_a_rebalance_from_outside_redelivers_and_fences(log: EmbeddedEventLog) -> None:
    log.append([NewRecord(TOPIC.name, f"k{n}", b"") for n in range(9)])
    member = log.subscribe("group", [TOPIC.name])
    first = member.poll(1)
    old = member.generation
    log.rebalance("group")
    with pytest.raises(StaleGeneration):
        member.commit({record.at: record.offset + 1 for record in first}, old)
    assert {(r.at, r.offset) for r in member.poll(1)} == {(r.at, r.offset) for r in first}
    assert member.generation == old + 1


def test_generations_and_ends_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    with closing(EmbeddedEventLog(path)) as log:
        log.ensure([TOPIC])
        log.append([NewRecord(TOPIC.name, f"k{n}", b"") for n in range(9)])
        member = log.subscribe("group", [TOPIC.name])
        member.poll(1)
        generation, ends = member.generation, log.end_offsets(TOPIC.name)
    with closing(EmbeddedEventLog(path)) as log:
        assert log.end_offsets(TOPIC.name) == ends
        member = log.subscribe("group", [TOPIC.name])
        member.poll(0)
        assert member.generation > generation


def test_inline_everything_happens_in_the_callers_thread_and_no_poll_waits() -> None:
    before = threading.active_count()
    with closing(EmbeddedEventLog(None, inline=True)) as log:
        log.ensure([TOPIC])
        member = log.subscribe("group", [TOPIC.name])
        assert member.poll(3600) == []
        log.append([NewRecord(TOPIC.name, "k", b"v")])
        assert [record.value for record in member.poll(3600)] == [b"v"]
        assert threading.active_count() == before


def test_a_poll_ends_when_the_log_is_closed(log: EmbeddedEventLog) -> None:
    member = log.subscribe("group", [TOPIC.name])
    member.poll(0)
    raised: list[Exception] = []

    def wait() -> None:
        try:
            member.poll(60)
        except LogUnavailable as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    log.close()
    thread.join(30)
    assert len(raised) == 1
    member.close()


def test_every_append_is_synced(log: EmbeddedEventLog) -> None:
    connection = log._store._connection
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    assert found == [2, "wal"]


def test_a_full_disk_is_named_and_appends_go_on_when_there_is_space(log: EmbeddedEventLog) -> None:
    log._store._connection.execute("PRAGMA max_page_count = 30")
    with pytest.raises(LogUnavailable, match=r"events\.db.*disk is full"):
        log.append([NewRecord(TOPIC.name, f"k{n}", bytes(4000)) for n in range(50)])
    assert set(log.end_offsets(TOPIC.name).values()) == {0}
    log._store._connection.execute("PRAGMA max_page_count = 3000")
    log.append([NewRecord(TOPIC.name, "k", b"v")])
    assert sum(log.end_offsets(TOPIC.name).values()) == 1


def test_a_file_that_is_no_log_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(b"not a database at all" * 400)
    for _ in range(2):
        with pytest.raises(LogUnavailable, match=r"events\.db.*not a SQLite database"):
            EmbeddedEventLog(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    EmbeddedEventLog(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    for _ in range(2):
        with pytest.raises(EventLogError, match="newer tutti"):
            EmbeddedEventLog(path)
