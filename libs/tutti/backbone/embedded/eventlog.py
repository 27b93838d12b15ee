"""The event log in one SQLite file, owned by one process and used by one thread of it.

Promises: as the port. Appends that arrive while a commit is running share the next one. A poll is woken by the append
that it waits for. Offsets never come back, whatever compaction and age removed.
"""

import contextlib
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from tutti.backbone.clock import Clock, SystemClock
from tutti.backbone.embedded import sqlite
from tutti.backbone.embedded.groups import Group, Member
from tutti.backbone.embedded.owner import Owner, OwnerClosed
from tutti.backbone.embedded.partitioner import partition_of
from tutti.backbone.embedded.records import Row, Store, encode
from tutti.backbone.eventlog import (
    EventLogError,
    LogUnavailable,
    NewRecord,
    Partitions,
    Record,
    StaleGeneration,
    Topic,
    TopicMismatch,
    TopicPartition,
    UnknownTopic,
    check_record,
    check_topic,
)
from tutti.backbone.files import Files, Lock, RealFiles

T = TypeVar("T")
Callback = Callable[[Partitions], None]


class _Ticket:
    """An append that waits for its commit."""

    __slots__ = ("done", "rows")

    def __init__(self, rows: list[tuple[TopicPartition, Row]]) -> None:
        self.rows = rows
        self.done = False


class EmbeddedEventLog:
    """`path` None keeps it in memory; `inline` uses the caller's thread, and polls do not wait (simulation)."""

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
        inline: bool = False,
        max_poll_seconds: float = 300,
    ) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._inline = inline
        self._max_poll_seconds = max_poll_seconds
        self._lock: Lock | None = None
        try:
            if path is not None:
                self._lock = sqlite.claim(files or RealFiles(), path)
            self._store = Store(sqlite.connect(path))
        except sqlite.InUse as error:
            raise LogUnavailable(str(error)) from None
        except (*sqlite.ERRORS, OSError) as error:
            self._release()
            raise self._translate(error) from error
        except EventLogError:
            self._release()
            raise
        self._tickets: deque[_Ticket] = deque()
        self._groups: dict[str, Group] = {}
        self._numbers = itertools.count(1)
        # Guards groups and wakes polls; the ends of the partitions change under it.
        self._moved = threading.Condition()
        self._closed = False
        self._owner = Owner(f"event log {path.stem if path else 'memory'}", inline=inline)

    def ensure(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            check_topic(topic)

        def work() -> None:
            for topic in topics:
                found = self._store.topics.get(topic.name)
                if found is not None and (found.kind, found.partitions) != (topic.kind, topic.partitions):
                    raise TopicMismatch(
                        f"{topic.name} exists as {found.kind.value} with {found.partitions} partitions, expected "
                        f"{topic.kind.value} with {topic.partitions}: another shape is a new topic"
                    )
            self._store.ensure(topics)

        self._call(work)

    def append(self, records: Sequence[NewRecord]) -> None:
        for record in records:
            check_record(record)
        if not records:
            return
        now = self._now_ms()
        topics = {name: self._topic(name).partitions for name in {record.topic for record in records}}
        places = self._store.places
        ticket = _Ticket(
            [
                (places[record.topic][partition_of(record.key, topics[record.topic])], encode(record, now))
                for record in records
            ]
        )
        self._tickets.append(ticket)
        self._call(lambda: self._commit_waiting(ticket))

    def subscribe(
        self,
        group: str,
        topics: Sequence[str],
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
    ) -> "EmbeddedSubscription":
        for topic in topics:
            self._topic(topic)
        number = next(self._numbers)
        self._change(group, lambda found: self._join(found, number, topics))
        return EmbeddedSubscription(self, group, number, topics, on_assigned, on_revoked)

    def end_offsets(self, topic: str) -> dict[TopicPartition, int]:
        count = self._topic(topic).partitions
        with self._moved:
            return {at: self._store.ends[at] for at in (TopicPartition(topic, p) for p in range(count))}

    def committed(self, group: str, topic: str) -> dict[TopicPartition, int]:
        self._topic(topic)
        return self._call(lambda: self._store.committed(group, topic))

    def read(self, at: TopicPartition, offset: int, max_records: int = 500) -> list[Record]:
        self._check_partition(at)
        return self._call(lambda: self._store.read(at, offset, max_records))

    def compact(self) -> None:
        now = self._now_ms()
        for at in self._call(lambda: sorted(self._store.ends)):  # one at a time, so that appends and polls come between
            self._call(partial(self._store.compact, at, now))

    def rebalance(self, group: str) -> None:
        """Deal the partitions of a group anew, as a broker may at any time."""
        self._change(group, lambda found: None)

    def close(self) -> None:
        with self._moved:
            self._closed = True
            self._moved.notify_all()
        self._owner.close(self._end)

    def _commit_waiting(self, ticket: _Ticket) -> None:
        """Commit what is waiting, in one transaction, unless the ticket was part of an earlier one."""
        if ticket.done:
            return
        batch: list[_Ticket] = []
        while self._tickets:
            batch.append(self._tickets.popleft())
        try:
            ends = self._store.append([row for waiting in batch for row in waiting.rows])
        except sqlite.ERRORS:
            # The others will try again by themselves; an error belongs to the caller that was running.
            self._tickets.extendleft(waiting for waiting in reversed(batch) if waiting is not ticket)
            raise
        for waiting in batch:
            waiting.done = True
        with self._moved:
            self._store.ends.update(ends)
            self._moved.notify_all()

    def _change(self, group: str, change: Callable[[Group], None]) -> None:
        def work() -> None:
            with self._moved:
                found = self._groups.get(group)
                if found is None:
                    found = self._groups[group] = Group(group, self._store.generation(group))
                change(found)
                found.rebalance({name: topic.partitions for name, topic in self._store.topics.items()})
                self._store.set_generation(group, found.generation)
                self._moved.notify_all()

        self._call(work)

    def _join(self, group: Group, number: int, topics: Sequence[str]) -> None:
        group.members[number] = Member(number, frozenset(topics), self._clock.monotonic())

    def _topic(self, name: str) -> Topic:
        topic = self._store.topics.get(name)
        if topic is None:
            raise UnknownTopic(f"{name} was never ensured; known: {', '.join(sorted(self._store.topics)) or 'none'}")
        return topic

    def _check_partition(self, at: TopicPartition) -> None:
        count = self._topic(at.topic).partitions
        if not 0 <= at.partition < count:
            raise EventLogError(f"{at.topic} has partitions 0 to {count - 1}, not {at.partition}")

    def _call(self, work: Callable[[], T]) -> T:
        try:
            return self._owner.call(work)
        except OwnerClosed:
            raise LogUnavailable(f"{self._path or 'the in-memory log'} is closed") from None
        except sqlite.ERRORS as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> EventLogError:
        return LogUnavailable(sqlite.explain(error, self._path))

    def _now_ms(self) -> int:
        return int(self._clock.now().timestamp() * 1000)

    def _end(self) -> None:
        self._store.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


class EmbeddedSubscription:
    """One member of a group of the embedded log."""

    def __init__(
        self,
        log: EmbeddedEventLog,
        group: str,
        number: int,
        topics: Sequence[str],
        on_assigned: Callback | None,
        on_revoked: Callback | None,
    ) -> None:
        self._log, self._group_name, self._number, self._topics = log, group, number, topics
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._positions: dict[TopicPartition, int] = {}
        self._generation = 0
        self._turn = 0
        self._closed = False

    @property
    def generation(self) -> int:
        return self._generation

    def poll(self, timeout_seconds: float, max_records: int = 500) -> list[Record]:
        log = self._log
        deadline = log._clock.monotonic() + (0 if log._inline else timeout_seconds)
        while True:
            if self._closed:
                raise LogUnavailable(f"this member of group {self._group_name} was closed; subscribe again")
            self._follow_the_group()
            if records := self._fetch(max_records):
                return records
            with log._moved:
                if log._closed:
                    raise LogUnavailable(f"{log._path or 'the in-memory log'} is closed")
                if not self._readable():
                    left = deadline - log._clock.monotonic()
                    if left <= 0:
                        return []
                    member = self._group().members[self._number]
                    member.polled_at = math.inf  # who waits in a poll is not idle
                    came = log._moved.wait(left)
                    member.polled_at = log._clock.monotonic()
                    if not came:
                        return []

    def commit(self, positions: Mapping[TopicPartition, int], generation: int) -> None:
        for at, offset in positions.items():
            self._log._check_partition(at)
            if offset < 0:
                raise EventLogError(f"{at.topic}/{at.partition}: offset {offset} is negative")

        def work() -> None:
            with self._log._moved:
                group = self._log._groups[self._group_name]
                if self._number not in group.members or generation != group.generation:
                    raise StaleGeneration(
                        f"group {self._group_name}: commit under generation {generation}, it is at {group.generation}; "
                        f"poll to learn what is yours now"
                    )
                if strange := set(positions) - set(group.assignment[self._number]):
                    raise StaleGeneration(f"group {self._group_name}: {sorted(strange)} belong to others now")
            self._log._store.commit(self._group_name, positions)

        self._log._call(work)

    def seek(self, at: TopicPartition, offset: int) -> None:
        if at not in self._positions:
            raise EventLogError(f"group {self._group_name}: {at.topic}/{at.partition} is not assigned to this member")
        self._positions[at] = offset

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(LogUnavailable):
            self._log._change(self._group_name, self._leave)

    def _group(self) -> Group:
        return self._log._groups[self._group_name]

    def _readable(self) -> bool:
        """True if there is something to read or to follow. Call it with the log's condition held."""
        group = self._group()
        if self._number not in group.members or group.generation != self._generation:
            return True
        ends = self._log._store.ends
        return any(position < ends[at] for at, position in self._positions.items())

    def _follow_the_group(self) -> None:
        """Leave out who stopped polling, come back if it was this member, take what is dealt to it."""
        log, now = self._log, self._log._clock.monotonic()
        with log._moved:
            group = self._group()
            if (member := group.members.get(self._number)) is not None:
                member.polled_at = now
            idle = group.idle(now - log._max_poll_seconds)
        if member is None or idle:
            log._change(self._group_name, lambda found: self._replace_members(found, idle))
        with log._moved:
            if group.generation == self._generation:
                return
            generation, assigned = group.generation, group.assignment[self._number]
        if self._positions and self._on_revoked is not None:
            self._on_revoked(tuple(self._positions))
        self._positions = {at: 0 for at in assigned}
        for topic in {at.topic for at in assigned}:
            self._positions |= {
                at: offset for at, offset in log.committed(self._group_name, topic).items() if at in self._positions
            }
        self._generation = generation
        if self._on_assigned is not None:
            self._on_assigned(assigned)

    def _replace_members(self, group: Group, idle: Sequence[int]) -> None:
        for number in idle:
            group.members.pop(number, None)
        if self._number not in group.members:
            self._log._join(group, self._number, self._topics)

    def _fetch(self, max_records: int) -> list[Record]:
        """Read what is there, starting with another partition each time so that none starves."""
        ends = self._log._store.ends
        waiting = [at for at, position in self._positions.items() if position < ends[at]]
        if not waiting:
            return []
        self._turn += 1
        first = self._turn % len(waiting)

        def work() -> list[Record]:
            records: list[Record] = []
            for at in waiting[first:] + waiting[:first]:
                end, left = ends[at], max_records - len(records)
                found = self._log._store.read(at, self._positions[at], left)
                # Fewer than asked for: what is missing up to the end was compacted away.
                self._positions[at] = found[-1].offset + 1 if len(found) == left else end
                records += found
                if len(records) == max_records:
                    break
            return records

        return self._log._call(work)

    def _leave(self, group: Group) -> None:
        group.members.pop(self._number, None)
