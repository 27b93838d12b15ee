"""What every event log promises, with the same test ids on every adapter."""

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Protocol

import pytest

from tutti.backbone import Kind, NewRecord, Record, Topic, TopicPartition
from tutti.backbone.embedded.partitioner import partition_of
from tutti.backbone.eventlog import (
    BadRecord,
    EventLog,
    EventLogError,
    LogUnavailable,
    StaleGeneration,
    Subscription,
    TopicMismatch,
    UnknownTopic,
)

DEADLINE = 120.0


class Place(Protocol):
    """A log of one adapter, and what the suite may do to it (conftest.py)."""

    log: EventLog

    def unreachable(self) -> EventLog: ...

    def impatient(self) -> EventLog: ...

    def force_compaction(self, topic: str) -> None: ...

    def expire(self, topic: Topic) -> None: ...

    def crash(self, topic: str) -> None: ...


@pytest.fixture
def place(log_place: Place) -> Place:
    return log_place


@pytest.fixture
def log(place: Place) -> EventLog:
    return place.log


@pytest.fixture
def facts(log: EventLog, unique: str) -> Topic:
    topic = Topic(f"{unique}.facts", Kind.FACT, 4)
    log.ensure([topic])
    return topic


@pytest.fixture
def states(log: EventLog, unique: str) -> Topic:
    topic = Topic(f"{unique}.states", Kind.STATE, 2)
    log.ensure([topic])
    return topic


@pytest.fixture
def group() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


def numbered(topic: Topic, count: int, keys: int = 7) -> list[NewRecord]:
    return [NewRecord(topic.name, f"key{n % keys}", b"%d" % n) for n in range(count)]


def drive(members: Sequence[Subscription], until: Callable[[], bool], poll_seconds: float = 0.05) -> list[Record]:
    """Poll all members beside each other until the condition holds: a group is dealt while all of them are there."""
    found: list[Record] = []
    deadline = time.monotonic() + DEADLINE
    with ThreadPoolExecutor(len(members)) as threads:
        while not until():
            assert time.monotonic() < deadline, f"not reached within {DEADLINE} s"
            for polled in threads.map(lambda member: member.poll(poll_seconds), members):
                found += polled
    return found


def collect(member: Subscription, count: int) -> list[Record]:
    found: list[Record] = []
    deadline = time.monotonic() + DEADLINE
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records within {DEADLINE} s"
        found += member.poll(0.5)
    return found


def read_all(log: EventLog, topic: str) -> list[Record]:
    return [record for at in log.end_offsets(topic) for record in log.read(at, 0, 10_000)]


def next_offsets(records: Sequence[Record]) -> dict[TopicPartition, int]:
    return {record.at: record.offset + 1 for record in records}


class Owned:
    """What the callbacks of a member said that it owns."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()
        self.thread: threading.Thread | None = None
        self.assignments = 0

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions |= set(partitions)
        self.thread = threading.current_thread()
        self.assignments += 1

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions -= set(partitions)


def test_the_partition_is_murmur2_of_the_key(log: EventLog, facts: Topic) -> None:
    log.append([NewRecord(facts.name, key, b"") for key in ("a", "jobs/7", "ümlaut", "x" * 300)])
    found = {record.key: record.partition for record in read_all(log, facts.name)}
    assert found == {key: partition_of(key, 4) for key in found}
    assert len(found) == 4


def test_records_of_a_partition_come_in_the_order_of_their_append(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 60))
    log.append(numbered(facts, 60))
    with closing(log.subscribe(group, [facts.name])) as member:
        found = collect(member, 120)
    for partition in range(4):
        expected = [r.value for r in numbered(facts, 60) if partition_of(r.key, 4) == partition]
        assert [record.value for record in found if record.partition == partition] == expected * 2
        offsets = [record.offset for record in found if record.partition == partition]
        assert offsets == sorted(set(offsets))


def test_key_value_and_headers_come_back_as_they_were(log: EventLog, facts: Topic) -> None:
    headers = {"ce_id": "0190", "tracé": "ünïcode ✓", "empty": ""}
    log.append([NewRecord(facts.name, "schlüssel/1", bytes(range(256)), headers), NewRecord(facts.name, "b", b"")])
    first, second = sorted(read_all(log, facts.name), key=lambda record: -len(record.key))
    assert (first.key, first.value, dict(first.headers)) == ("schlüssel/1", bytes(range(256)), headers)
    assert (second.key, second.value, dict(second.headers)) == ("b", b"", {})
    assert first.timestamp_ms > 1_600_000_000_000


def test_an_empty_key_is_refused(log: EventLog, facts: Topic) -> None:
    with pytest.raises(BadRecord, match="empty key"):
        log.append([NewRecord(facts.name, "", b"x")])


def test_a_record_that_is_too_large_refuses_its_whole_append(log: EventLog, facts: Topic) -> None:
    with pytest.raises(BadRecord, match="1000000"):
        log.append([NewRecord(facts.name, "a", b"x"), NewRecord(facts.name, "a", bytes(1_000_001))])
    assert read_all(log, facts.name) == []
    log.append([NewRecord(facts.name, "a", bytes(999_000))])
    assert len(read_all(log, facts.name)[0].value) == 999_000


def test_an_unknown_topic_is_refused(log: EventLog, unique: str, group: str) -> None:
    with pytest.raises(UnknownTopic):
        log.append([NewRecord(f"{unique}.none", "a", b"x")])
    with pytest.raises(UnknownTopic):
        log.subscribe(group, [f"{unique}.none"])
    with pytest.raises(UnknownTopic):
        log.end_offsets(f"{unique}.none")


def test_a_bad_topic_is_refused(log: EventLog) -> None:
    for bad in (Topic("", Kind.FACT), Topic("a/b", Kind.FACT), Topic("fine", Kind.FACT, 0)):
        with pytest.raises(EventLogError):
            log.ensure([bad])


def test_ensure_is_idempotent_and_refuses_another_shape(log: EventLog, facts: Topic) -> None:
    log.append(numbered(facts, 3))
    log.ensure([facts, replace(facts, retention_seconds=3600)])
    with pytest.raises(TopicMismatch, match="4 partitions"):
        log.ensure([replace(facts, partitions=5)])
    with pytest.raises(TopicMismatch):
        log.ensure([replace(facts, kind=Kind.STATE)])
    assert len(read_all(log, facts.name)) == 3


def test_a_new_group_starts_at_the_beginning(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 5))
    with closing(log.subscribe(group, [facts.name])) as member:
        assert {record.value for record in collect(member, 5)} == {b"%d" % n for n in range(5)}
    assert log.committed(group, facts.name) == {}


def test_what_was_not_committed_is_delivered_again(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 5))
    for _ in range(2):
        with closing(log.subscribe(group, [facts.name])) as member:
            assert len(collect(member, 5)) == 5


def test_a_commit_is_cumulative_and_is_where_the_group_goes_on(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 20))
    with closing(log.subscribe(group, [facts.name])) as member:
        positions = next_offsets(collect(member, 20))
        member.commit(positions, member.generation)
    assert log.committed(group, facts.name) == positions
    log.append([NewRecord(facts.name, "key0", b"new")])
    with closing(log.subscribe(group, [facts.name])) as member:
        assert [record.value for record in collect(member, 1)] == [b"new"]


def test_every_group_reads_everything(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 9))
    for name in (f"{group}a", f"{group}b"):
        with closing(log.subscribe(name, [facts.name])) as member:
            found = collect(member, 9)
            member.commit(next_offsets(found), member.generation)


def test_members_share_the_partitions_and_each_has_one_owner(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 40, keys=20))
    owned = [Owned(), Owned()]
    members = [log.subscribe(group, [facts.name], one.assigned, one.revoked) for one in owned]
    try:
        drive(members, lambda: all(len(one.partitions) == 2 for one in owned))
        assert owned[0].partitions | owned[1].partitions == {TopicPartition(facts.name, n) for n in range(4)}
        assert members[0].generation == members[1].generation > 0
    finally:
        for member in members:
            member.close()


def test_a_member_that_leaves_hands_its_partitions_over(log: EventLog, facts: Topic, group: str) -> None:
    owned = [Owned(), Owned()]
    members = [log.subscribe(group, [facts.name], one.assigned, one.revoked) for one in owned]
    drive(members, lambda: all(len(one.partitions) == 2 for one in owned))
    before = members[0].generation
    members[1].close()
    members[1].close()
    log.append(numbered(facts, 30, keys=20))
    found: list[Record] = []
    with closing(members[0]):
        found += drive(members[:1], lambda: len(owned[0].partitions) == 4)
        found += collect(members[0], 30 - len(found))
        assert members[0].generation > before
    assert {record.value for record in found} == {b"%d" % n for n in range(30)}


def test_a_member_that_stops_polling_is_replaced(place: Place, unique: str, group: str) -> None:
    with closing(place.impatient()) as log:
        topic = Topic(f"{unique}.facts", Kind.FACT, 4)
        log.ensure([topic])
        owned = [Owned(), Owned()]
        members = [log.subscribe(group, [topic.name], one.assigned, one.revoked) for one in owned]
        drive(members, lambda: all(len(one.partitions) == 2 for one in owned))
        silent = members[0].generation
        drive(members[1:], lambda: len(owned[1].partitions) == 4)
        with pytest.raises(StaleGeneration):
            members[0].commit({TopicPartition(topic.name, 0): 1}, silent)
        for member in members:
            member.close()


def test_a_commit_of_an_older_generation_is_refused(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 12))
    owned = [Owned(), Owned()]
    first = log.subscribe(group, [facts.name], owned[0].assigned, owned[0].revoked)
    old = next_offsets(collect(first, 12))
    stale = first.generation
    second = log.subscribe(group, [facts.name], owned[1].assigned, owned[1].revoked)
    drive([first, second], lambda: all(len(one.partitions) == 2 for one in owned))
    mine = {at: offset for at, offset in old.items() if at in owned[0].partitions}
    with pytest.raises(StaleGeneration):
        first.commit(mine, stale)
    assert log.committed(group, facts.name) == {}
    first.commit(mine, first.generation)
    assert log.committed(group, facts.name) == mine
    first.close()
    second.close()


def test_a_commit_of_a_partition_of_another_member_is_refused(log: EventLog, facts: Topic, group: str) -> None:
    owned = [Owned(), Owned()]
    members = [log.subscribe(group, [facts.name], one.assigned, one.revoked) for one in owned]
    drive(members, lambda: all(len(one.partitions) == 2 for one in owned))
    with pytest.raises(StaleGeneration, match="belong to others"):
        members[0].commit({at: 1 for at in owned[1].partitions}, members[0].generation)
    for member in members:
        member.close()


def test_the_callbacks_run_in_the_thread_that_polls_before_the_records(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 3))
    owned = Owned()
    with closing(log.subscribe(group, [facts.name], owned.assigned, owned.revoked)) as member:
        assert owned.assignments == 0
        assert {record.at for record in collect(member, 3)} <= owned.partitions
        assert owned.thread is threading.current_thread()


def test_seek_reads_again_and_only_what_is_owned(log: EventLog, facts: Topic, group: str) -> None:
    log.append([NewRecord(facts.name, "a", b"%d" % n) for n in range(4)])
    with closing(log.subscribe(group, [facts.name])) as member:
        found = collect(member, 4)
        member.seek(found[0].at, found[2].offset)
        assert [record.value for record in collect(member, 2)] == [b"2", b"3"]
        with pytest.raises(EventLogError, match="not assigned"):
            member.seek(TopicPartition(facts.name, 99), 0)


def test_a_poll_is_woken_by_the_append_it_waits_for(log: EventLog, facts: Topic, group: str) -> None:
    found: list[Record] = []
    owned = Owned()
    with closing(log.subscribe(group, [facts.name], owned.assigned)) as member:
        drive([member], lambda: len(owned.partitions) == 4)
        waiting = threading.Thread(target=lambda: found.extend(member.poll(DEADLINE)))
        waiting.start()
        log.append([NewRecord(facts.name, "a", b"wake")])
        waiting.join(DEADLINE / 2)
        assert [record.value for record in found] == [b"wake"]


@pytest.mark.parametrize("milliseconds", [1, 5, 10, 20, 30, 40, 50, 70])
def test_a_member_that_polls_for_moments_gets_its_partitions(
    log: EventLog, facts: Topic, group: str, milliseconds: int
) -> None:
    """A join that outlasts a poll is gone on with in the next one, wherever the poll's time ran out."""
    owned = Owned()
    with closing(log.subscribe(group, [facts.name], owned.assigned)) as member:
        drive([member], lambda: len(owned.partitions) == 4, milliseconds / 1000)


def test_a_poll_returns_at_most_as_many_as_asked_for(log: EventLog, facts: Topic, group: str) -> None:
    log.append(numbered(facts, 25))
    seen: list[Record] = []
    with closing(log.subscribe(group, [facts.name])) as member:
        while len(seen) < 25:
            polled = member.poll(DEADLINE, max_records=10)
            assert 1 <= len(polled) <= 10
            seen += polled
    assert len({(record.at, record.offset) for record in seen}) == 25


def test_read_goes_from_an_offset_to_the_end_outside_any_group(log: EventLog, facts: Topic) -> None:
    log.append([NewRecord(facts.name, "a", b"%d" % n) for n in range(6)])
    at = TopicPartition(facts.name, partition_of("a", 4))
    every = log.read(at, 0)
    assert [record.value for record in every] == [b"%d" % n for n in range(6)]
    assert log.read(at, every[3].offset, max_records=2) == every[3:5]
    end = log.end_offsets(facts.name)
    assert end[at] >= every[-1].offset + 1
    assert log.read(at, end[at]) == []
    assert {offset for where, offset in end.items() if where != at} == {0}
    with pytest.raises(EventLogError):
        log.read(TopicPartition(facts.name, 4), 0)


def test_compaction_keeps_the_newest_record_of_each_key_and_leaves_gaps(
    place: Place, log: EventLog, states: Topic, group: str
) -> None:
    log.append([NewRecord(states.name, f"k{n % 3}", b"%d" % n) for n in range(300)])
    newest = {f"k{n % 3}": b"%d" % n for n in range(300)}
    at = TopicPartition(states.name, partition_of("k0", 2))
    deadline = time.monotonic() + DEADLINE
    while len(left := [record for record in read_all(log, states.name) if record.key in newest]) > 3:
        assert time.monotonic() < deadline, f"{len(left)} records are left of 300, expected 3"
        place.force_compaction(states.name)
    assert {record.key: record.value for record in left} == newest
    assert log.end_offsets(states.name)[at] >= 100
    with closing(log.subscribe(group, [states.name])) as member:
        log.append([NewRecord(states.name, "k0", b"after")])
        found: list[Record] = []
        while not any(record.value == b"after" for record in found):
            assert time.monotonic() < deadline
            found += member.poll(1)
    assert {record.key: record.value for record in found}["k1"] == newest["k1"]


def test_facts_expire_by_age_and_offsets_go_on(place: Place, log: EventLog, facts: Topic) -> None:
    log.append([NewRecord(facts.name, "a", b"%d" % n) for n in range(5)])
    at = TopicPartition(facts.name, partition_of("a", 4))
    end = log.end_offsets(facts.name)[at]
    place.expire(facts)
    log = place.log
    deadline = time.monotonic() + DEADLINE
    while log.read(at, 0):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert log.end_offsets(facts.name)[at] == end
    place.expire(facts)
    log = place.log
    log.ensure([facts])
    log.append([NewRecord(facts.name, "a", b"young")])
    assert [(record.value, record.offset >= end) for record in log.read(at, 0)] == [(b"young", True)]


def test_concurrent_appenders_lose_nothing_and_keep_their_order(log: EventLog, facts: Topic) -> None:
    def work(name: int) -> None:
        for n in range(15):
            log.append([NewRecord(facts.name, f"writer{name}", b"%d" % n)])

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    found = read_all(log, facts.name)
    for name in range(8):
        assert [r.value for r in found if r.key == f"writer{name}"] == [b"%d" % n for n in range(15)]


def test_what_was_acknowledged_survives_kill_9(place: Place, unique: str) -> None:
    topic = Topic(f"{unique}.facts", Kind.FACT, 2)
    place.log.ensure([topic])
    place.crash(topic.name)
    assert b"from the dead" in [record.value for record in read_all(place.log, topic.name)]


def test_a_log_that_cannot_be_had_says_so_in_time(place: Place, unique: str) -> None:
    with pytest.raises(LogUnavailable, match=r"in use by process|127\.0\.0\.1:9"):
        place.unreachable().append([NewRecord(unique, "a", b"")])


def test_a_closed_log_refuses(log: EventLog, facts: Topic) -> None:
    log.close()
    log.close()
    with pytest.raises(LogUnavailable, match="closed"):
        log.append([NewRecord(facts.name, "a", b"")])
