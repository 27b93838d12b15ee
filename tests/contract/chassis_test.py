"""What the transactional core of the chassis promises, with the same test ids on every database."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import pytest
from google.protobuf.message import Message
from sqlalchemy import MetaData, update

from tutti.backbone import Database, Isolation, ManualClock, NewRecord, SystemRandomness
from tutti.backbone.embedded.eventlog import EmbeddedEventLog
from tutti.chassis.delivery import handling, outbox
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.errors import (
    AlreadyExists,
    CorruptRow,
    EmitRefused,
    FencedOff,
    InvalidField,
    NotFound,
    Refused,
    StaleWrite,
    TooLarge,
)
from tutti.chassis.events.catalog import topics_of
from tutti.chassis.events.event import Event
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.service import Consumed
from tutti.chassis.store import audit, taskrows
from tutti.chassis.store.columns import Index
from tutti.chassis.store.leases import Leases
from tutti.chassis.store.limits import Limit, Limits
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Raced, Unit, Units
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_DONE,
    JOB_STATE_QUEUED,
    CreateJobRequest,
    EpochOpened,
    Job,
    JobSpec,
    Node,
    RankLost,
)

READ = Isolation.READ_COMMITTED
OPERATOR = Principal.of_role(Role.OPERATOR)


class Place(Protocol):
    db: Database
    overlaps: bool

    def client(self) -> Database: ...


@dataclass
class Bench:
    """A scheduler of two resources on one database, and a log of its own."""

    place: Place
    clock: ManualClock = field(default_factory=ManualClock)
    log: EmbeddedEventLog = field(default_factory=lambda: EmbeddedEventLog(None, inline=True))

    def __post_init__(self) -> None:
        self.metadata = MetaData()
        columns: dict[str, Index] = {
            "state": lambda job: int(job.state),
            "words": lambda job: tuple(job.history),
            "new": lambda job: job.step == 0,
        }
        self.jobs = Resource(self.metadata, "jobs", Job, columns)
        self.nodes = Resource(self.metadata, "nodes", Node)
        self.units = self.another(self.place.db)
        self.leases = Leases(self.metadata)
        self.place.db.create(self.metadata)
        self.log.ensure(topics_of([Job, Node, EpochOpened, RankLost]))

    def another(self, db: Database) -> Units:
        """Units of another process on the same database."""
        return Units(db, "scheduler", self.metadata, clock=self.clock, randomness=SystemRandomness())

    def create(self, name: str = "jobs/a", **fields: Any) -> Job:
        return self.units.run(lambda unit: self.jobs.create(unit, Job(name=name, **fields)))

    def change(self, name: str, step: int, *facts: RankLost) -> Job:
        def work(unit: Unit) -> Job:
            job = self.jobs.lock(unit, name)
            job.step = step
            put = self.jobs.put(unit, job)
            for fact in facts:
                unit.fact(name, fact)
            return put

        return self.units.run(work)

    def relay(self, holder: str = "a") -> Relay:
        return Relay(self.units, self.log, self.leases, holder=holder)

    def consumer(self, *consumed: Consumed) -> Consumer:
        return Consumer(self.units, self.log, consumed, group="reader")

    def sent(self) -> list[tuple[str, int]]:
        return [
            (record.key, int(record.headers["revision"]))
            for topic in topics_of([Job])
            for at, end in self.log.end_offsets(topic.name).items()
            for record in (self.log.read(at, 0) if end else ())
        ]


@pytest.fixture
def bench(database_place: Place) -> Bench:
    return Bench(database_place)


def drain(loop: Any) -> None:
    while loop.step():
        pass


def test_a_create_can_be_repeated_and_another_body_is_refused(bench: Bench) -> None:
    def ask(name: str, steps: int, request_id: str) -> Job:
        request = CreateJobRequest(request_id=request_id, name=name, spec=JobSpec(steps=steps))
        return bench.units.run(lambda unit: bench.jobs.create(unit, Job(name=name, spec=request.spec), request))

    first = ask("jobs/a", 1, "r1")
    assert first.revision == 1
    bench.change("jobs/a", 7)
    assert ask("jobs/a", 1, "r1").step == ask("jobs/a", 1, "r2").step == 7
    for name, steps, request_id in (("jobs/a", 2, "r3"), ("jobs/b", 1, "r1"), ("jobs/a", 2, "r1")):
        with pytest.raises(AlreadyExists) as refused:
            ask(name, steps, request_id)
        assert refused.value.ours != refused.value.theirs
    assert bench.units.run(outbox.count_unsent) == 2


def test_one_of_many_concurrent_creates_wins_and_all_return_it(bench: Bench) -> None:
    clients = [bench.another(bench.place.client()) for _ in range(4)]
    barrier = threading.Barrier(len(clients))

    def create(units: Units) -> Job:
        barrier.wait(30)
        return units.run(lambda unit: bench.jobs.create(unit, Job(name="jobs/a", state=JOB_STATE_QUEUED)))

    with ThreadPoolExecutor(len(clients)) as threads:
        found = list(threads.map(create, clients))
    assert {job.revision for job in found} == {1}
    assert bench.units.run(outbox.count_unsent) == 1


def test_a_put_grows_the_revision_only_when_the_body_changed(bench: Bench) -> None:
    bench.create()
    assert bench.units.run(bench.jobs.changes) == 1
    assert [bench.change("jobs/a", step).revision for step in (3, 3, 4)] == [2, 2, 3]
    assert bench.units.run(outbox.count_unsent) == bench.units.run(bench.jobs.changes) == 3


def test_a_put_without_a_lock_or_of_an_old_copy_is_refused(bench: Bench) -> None:
    old = bench.create()
    bench.change("jobs/a", 1)
    with pytest.raises(StaleWrite, match="lock"):
        bench.units.run(lambda unit: bench.jobs.put(unit, old))
    with pytest.raises(StaleWrite, match="revision 1"):
        bench.units.run(lambda unit: bench.jobs.lock(unit, "jobs/a") and bench.jobs.put(unit, old))
    with pytest.raises(NotFound):
        bench.units.run(lambda unit: bench.jobs.lock(unit, "jobs/b"))


def test_concurrent_changes_of_one_resource_are_all_counted(bench: Bench) -> None:
    bench.create()
    clients = [bench.another(bench.place.client()) for _ in range(3)]

    def count(units: Units) -> None:
        def more(unit: Unit) -> None:
            job = bench.jobs.lock(unit, "jobs/a")
            job.step += 1
            bench.jobs.put(unit, job)

        for _ in range(5):
            units.run(more)

    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(count, clients))
    assert bench.units.run(lambda unit: bench.jobs.get(unit, "jobs/a")).step == 15
    drain(bench.relay())
    assert bench.sent() == [("jobs/a", revision) for revision in range(1, 17)]


@pytest.mark.parametrize(
    "damage",
    [{"body": b"\x0a\x06jobs/b"}, {"digest": "blake3:0"}, {"revision": 9}, {"request_digest": ""}, {"state": 5}],
)
def test_a_damaged_row_is_named_when_it_is_read(bench: Bench, damage: dict[str, Any]) -> None:
    bench.create(state=JOB_STATE_QUEUED)
    table = bench.jobs.table
    bench.units.run(lambda unit: unit.tx.execute(update(table).values(**damage)) and None)
    with pytest.raises(CorruptRow, match=r"'jobs/a' of the table jobs.*backup"):
        bench.units.run(lambda unit: bench.jobs.find(unit, "jobs/a"))


def test_pages_stay_true_under_writes(bench: Bench) -> None:
    for name in "bdfh":
        bench.create(f"jobs/{name}", state=JOB_STATE_QUEUED)
    bench.create("jobs/e", state=JOB_STATE_DONE)

    def page(token: str) -> tuple[list[str], str]:
        request = ListRequest(page_size=2, page_token=token, filter="state=JOB_STATE_QUEUED")
        listed = bench.units.run(lambda unit: bench.jobs.page(unit, request, OPERATOR))
        return [job.name for job in listed.found], listed.token

    first, token = page("")
    assert first == ["jobs/b", "jobs/d"]
    bench.create("jobs/a", state=JOB_STATE_QUEUED)
    bench.create("jobs/g", state=JOB_STATE_QUEUED)
    second, token = page(token)
    third, end = page(token)
    assert (second, third, end) == (["jobs/f", "jobs/g"], ["jobs/h"], "")
    for bad in (
        ListRequest(page_token=token),
        ListRequest(page_token="x"),  # noqa: S106
        ListRequest(filter="loss=1"),
        ListRequest(page_size=1001),
    ):
        with pytest.raises(InvalidField):
            bench.units.run(lambda unit, bad=bad: bench.jobs.page(unit, bad, OPERATOR))  # type: ignore[misc]


@pytest.mark.parametrize("state", ["JOB_STATE_QUEUED", "queued", str(int(JOB_STATE_QUEUED))])
def test_a_state_is_filtered_by_its_name_or_as_it_is_printed(bench: Bench, state: str) -> None:
    bench.create("jobs/a", state=JOB_STATE_QUEUED)
    bench.create("jobs/b", state=JOB_STATE_DONE)
    listed = bench.units.run(lambda unit: bench.jobs.page(unit, ListRequest(filter=f"state={state}"), OPERATOR))
    assert [job.name for job in listed.found] == ["jobs/a"]
    with pytest.raises(InvalidField, match=r"a whole number or one of .*queued, .*running.* for state"):
        bench.units.run(lambda unit: bench.jobs.page(unit, ListRequest(filter="state=waiting"), OPERATOR))


def test_a_list_is_filtered_by_words_and_by_yes_or_no(bench: Bench) -> None:
    words = {"a": ["fast", "lr_1"], "b": ["fast"], "c": ["fast-er", "lrx1"], "d": []}
    for number, (name, each) in enumerate(words.items()):
        bench.create(f"jobs/{name}", history=each, step=number % 2)

    def listed(wanted: str) -> str:
        page = bench.units.run(lambda unit: bench.jobs.page(unit, ListRequest(filter=wanted), OPERATOR))
        return "".join(job.name.removeprefix("jobs/") for job in page.found)

    assert listed("words:fast") == "ab"
    assert listed("words:lr_1") == "a"
    assert listed("words:lr_1 AND words:fast AND new=true") == "a"
    assert listed("words:fast AND new=false") == "b"
    assert (listed("new=true"), listed("new=false")) == ("ac", "bd")
    for wrong in ("words=fast", "new:true", "new=maybe", "words:", "words:%", "words:FAST", "words:a b", "word:a"):
        with pytest.raises(InvalidField) as refused:
            listed(wrong)
        assert refused.value.field == "filter"


def test_an_event_is_refused_without_its_resource_its_key_or_a_small_payload(bench: Bench) -> None:
    bench.create()

    def emit(fact: RankLost, *, put: bool = True) -> None:
        def work(unit: Unit) -> None:
            job = bench.jobs.lock(unit, "jobs/a")
            job.step += put
            bench.jobs.put(unit, job)
            unit.fact("jobs/a", fact)

        bench.units.run(work)

    with pytest.raises(EmitRefused, match="needs a new revision"):
        emit(RankLost(job="jobs/a"), put=False)
    with pytest.raises(EmitRefused, match="is not set"):
        emit(RankLost())
    with pytest.raises(EmitRefused, match="'jobs/b'"):
        emit(RankLost(job="jobs/b"))
    with pytest.raises(TooLarge, match="blob"):
        emit(RankLost(job="jobs/a", cause="x" * 70_000))
    assert bench.units.run(lambda unit: bench.jobs.get(unit, "jobs/a")).revision == 1


def test_a_fact_of_rows_has_the_revision_that_was_read_and_locks_nothing(bench: Bench) -> None:
    bench.create()
    bench.change("jobs/a", 1)

    def emit(unit: Unit, message: Message) -> None:
        unit.fact_of_rows(bench.jobs.get(unit, "jobs/a"), message)
        assert not unit.held

    bench.units.run(lambda unit: emit(unit, RankLost(job="jobs/a", rank=1)))
    facts = [each for each in bench.units.run(outbox.tail) if each.type == RankLost.DESCRIPTOR.full_name]
    assert [(each.revision, each.record.key) for each in facts] == [(2, "jobs/a")]
    with pytest.raises(EmitRefused, match="is a STATE event"):
        bench.units.run(lambda unit: emit(unit, Job(name="jobs/a")))
    with pytest.raises(EmitRefused, match="'jobs/b'"):
        bench.units.run(lambda unit: emit(unit, RankLost(job="jobs/b")))


def test_what_a_savepoint_undid_is_not_emitted(bench: Bench) -> None:
    bench.create()
    told: list[frozenset[tuple[str, int]]] = []
    bench.jobs.changed.append(told.append)

    def work(unit: Unit) -> None:
        def inner() -> None:
            job = bench.jobs.lock(unit, "jobs/a")
            job.step = 9
            bench.jobs.put(unit, job)
            raise ValueError("undo")

        with pytest.raises(ValueError, match="undo"):
            unit.savepoint(inner)
        job = bench.jobs.lock(unit, "jobs/a")
        job.step = 2
        bench.jobs.put(unit, job)

    bench.units.run(work)
    drain(bench.relay())
    assert bench.sent() == [("jobs/a", 1), ("jobs/a", 2)]
    assert told == [frozenset({("jobs/a", 2)})]


def test_a_second_relay_waits_for_the_lease_and_a_zombie_marks_nothing(bench: Bench) -> None:
    bench.create()
    first, second = bench.relay("first"), bench.relay("second")
    lease, rows = first.take()
    assert lease is not None
    assert not second.step()
    bench.units.run(lambda unit: bench.leases.release(unit, lease))
    drain(second)
    bench.change("jobs/a", 5)
    drain(second)
    first.publish(rows)
    first.mark(rows, lease)
    drain(second)
    assert bench.sent() == [("jobs/a", 1), ("jobs/a", 2), ("jobs/a", 1), ("jobs/a", 2)]
    assert bench.units.run(outbox.count_unsent) == 0


def test_sent_events_are_kept_and_can_be_sent_again_under_the_same_ids(bench: Bench) -> None:
    bench.create()
    bench.change("jobs/a", 1)
    drain(bench.relay())
    since = bench.units.run(lambda unit: unit.now) - timedelta(hours=1)
    assert bench.units.run(lambda unit: outbox.republish(unit, since, validate_only=True)) == 2
    assert bench.units.run(lambda unit: outbox.republish(unit, since)) == 2
    drain(bench.relay())
    assert bench.sent() == [("jobs/a", 1), ("jobs/a", 2)] * 2
    later = since + timedelta(hours=2)
    assert bench.units.run(lambda unit: outbox.prune(unit, later)) == 1
    assert [row.revision for row in bench.units.run(outbox.tail)] == [2]


class Reader:
    """Takes facts and snapshots; refuses steps that are poison."""

    def __init__(self, bench: Bench) -> None:
        self.facts: list[int] = []
        self.states: list[int] = []
        self.poison: set[int] = set()
        self.consumer = bench.consumer(Consumed(Job, self.on_job), Consumed(RankLost, self.on_lost))
        self.relay = bench.relay()

    def on_job(self, unit: Unit, events: Sequence[Event]) -> None:
        unit.on_commit(lambda: self.states.extend(event.message.step for event in events))

    def on_lost(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            if event.message.step in self.poison:
                raise ValueError(f"poison {event.message.step}")
        unit.on_commit(lambda: self.facts.extend(event.message.step for event in events))

    def read(self) -> None:
        drain(self.relay)
        drain(self.consumer)


def test_an_event_has_one_effect_however_often_it_is_delivered(bench: Bench) -> None:
    reader = Reader(bench)
    bench.create()
    bench.change("jobs/a", 1, RankLost(job="jobs/a", step=1), RankLost(job="jobs/a", step=2))
    reader.read()
    since = bench.units.run(lambda unit: unit.now) - timedelta(hours=1)
    bench.units.run(lambda unit: outbox.republish(unit, since))
    reader.read()
    assert (reader.facts, reader.states) == ([1, 2], [0, 1])


def test_a_poison_event_parks_its_subject_until_it_is_replayed(bench: Bench) -> None:
    reader = Reader(bench)
    reader.poison = {2}
    for name in ("jobs/a", "jobs/b"):
        bench.create(name)
    for step in (1, 2, 3, 4):
        bench.change("jobs/a", step, RankLost(job="jobs/a", step=step))
    bench.change("jobs/b", 9, RankLost(job="jobs/b", step=9))
    reader.read()
    (letter,) = reader.consumer.dead_letters()
    assert (sorted(reader.facts), letter.subject, letter.error) == ([1, 9], "jobs/a", "ValueError: poison 2")
    bench.change("jobs/a", 5, RankLost(job="jobs/a", step=5))
    reader.read()
    with pytest.raises(Refused, match="died again"):
        reader.consumer.settle(letter.id, discard=False)
    reader.poison = {4}
    assert reader.consumer.settle(letter.id, discard=False) == 1
    assert sorted(reader.facts) == [1, 2, 3, 9]
    (letter,) = reader.consumer.dead_letters()
    assert reader.consumer.settle(letter.id, discard=True) >= 1
    assert sorted(reader.facts) == [1, 2, 3, 5, 9]
    assert reader.consumer.dead_letters() == []
    with pytest.raises(NotFound):
        reader.consumer.settle(letter.id, discard=True)


def test_a_handler_that_another_process_overtakes_is_run_again(bench: Bench) -> None:
    """Both write the same new row: nothing is wrong with the event, so it is no dead letter."""
    seen = list[int]()

    def on_job(unit: Unit, events: Sequence[Event]) -> None:
        seen.append(len(events))
        if len(seen) <= 2:
            raise Raced("the row was written by another")

    bench.create()
    drain(bench.relay())
    consumer = bench.consumer(Consumed(Job, on_job))
    drain(consumer)
    assert (seen, consumer.dead_letters()) == ([1, 1, 1], [])


def test_rubbish_is_a_dead_letter_and_an_unknown_type_is_skipped(bench: Bench) -> None:
    reader = Reader(bench)
    good = {"ce_id": "1", "ce_type": "tutti.scheduler.v1.RankLost", "ce_subject": "jobs/a", "revision": "1"}
    good["ce_time"] = "2026-01-01T00:00:00+00:00"
    lost = RankLost(job="jobs/a", step=3).SerializeToString()
    for headers, value in (
        (good | {"ce_id": "unknown", "ce_type": "tutti.scheduler.v1.Later"}, lost),
        (good | {"ce_id": "rubbish"}, b"\xff\xff"),
        (good | {"ce_id": "parked"}, lost),
        ({}, b""),
    ):
        bench.log.append([NewRecord("scheduler.jobs.facts", "jobs/a", value, headers)])
    reader.read()
    (letter,) = reader.consumer.dead_letters()
    assert (letter.id, letter.parked) == ("rubbish", 2)
    assert "payload" in str(letter.error)
    reader.consumer.settle("rubbish", discard=True)
    assert reader.facts == [3]
    (letter,) = reader.consumer.dead_letters()
    assert letter.error == "the header ce_type is missing"


@pytest.mark.parametrize("poison", [True, False])
def test_one_transaction_takes_few_events_alone(bench: Bench, poison: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert handling.MAX_ALONE < 64, "so many savepoints of a transaction are in Postgres' memory"
    monkeypatch.setattr(handling, "MAX_ALONE", 5)
    reader = Reader(bench)
    reader.poison = {10} if poison else set()
    bench.create()
    bench.change("jobs/a", 1, *(RankLost(job="jobs/a", step=step) for step in range(1, 16)))
    drain(bench.relay())
    records = [
        record if poison else record._replace(key=f"jobs/{record.offset}", value=b"\xff")
        for at, end in bench.log.end_offsets("scheduler.jobs.facts").items()
        for record in (bench.log.read(at, 0) if end else ())
    ]
    assert len(records) == 15
    assert bench.units.run(lambda unit: reader.consumer.handling.apply(unit, records)) == 5
    drain(reader.consumer)
    assert reader.facts == ([*range(1, 10)] if poison else [*range(6, 16)])
    assert len(reader.consumer.dead_letters()) == (1 if poison else 5)


def test_a_task_is_claimed_by_one_worker_and_finished_once(bench: Bench) -> None:
    for number in range(6):
        bench.units.run(lambda unit, number=number: unit.enqueue("work", "jobs/a", id=f"t{number}"))  # type: ignore[misc]
    bench.units.run(lambda unit: unit.enqueue("work", "jobs/a", id="t0"))
    clients = [bench.another(bench.place.client()) for _ in range(3)]

    def claim_all(units: Units) -> list[str]:
        claimed: list[str] = []
        while (task := units.run(lambda unit: taskrows.claim(unit, ["work"], "w", 15), isolation=READ)) is not None:
            units.run(lambda unit, task=task: taskrows.finish(unit, task))  # type: ignore[misc]
            claimed.append(task.id)
        return claimed

    with ThreadPoolExecutor(len(clients)) as threads:
        claimed = [name for names in threads.map(claim_all, clients) for name in names]
    assert sorted(claimed) == [f"t{number}" for number in range(6)]


def test_a_stale_claim_is_refused_and_a_cancelled_task_cannot_finish(bench: Bench) -> None:
    bench.units.run(lambda unit: unit.enqueue("work", "jobs/a", id="t"))

    def claim() -> Callable[[], None]:
        task = bench.units.run(lambda unit: taskrows.claim(unit, ["work"], "w", 15))
        assert task is not None
        return lambda: bench.units.run(lambda unit: taskrows.finish(unit, task))

    stale = claim()
    bench.units.run(taskrows.vacate)
    fresh = claim()
    with pytest.raises(FencedOff):
        stale()
    assert bench.units.run(lambda unit: unit.cancel_tasks("jobs/a")) == 1
    with pytest.raises(FencedOff):
        fresh()


def test_the_tasks_of_a_dead_predecessor_are_free_at_once_and_no_others(bench: Bench) -> None:
    def claim(holder: str) -> taskrows.Task:
        task = bench.units.run(lambda unit: taskrows.claim(unit, ["work"], holder, 15), isolation=READ)
        assert task is not None
        return task

    def lapse(task: taskrows.Task, times: int) -> None:
        tasks = bench.units.tables.tasks
        change = update(tasks).where(tasks.c.id == task.id).values(lapses=times)
        bench.units.run(lambda unit: unit.tx.execute(change))

    for number in range(5):
        bench.units.run(lambda unit, number=number: unit.enqueue("work", "jobs/a", id=f"t{number}"))  # type: ignore[misc]
    old, other, longer, deadly = (claim(f"{instance}/1") for instance in ("a_b", "axb", "a_b_c", "a_b"))
    lapse(deadly, taskrows.MAX_LAPSES - 1)
    bench.units.run(lambda unit: taskrows.vacate(unit, of="a_b"), isolation=READ)
    again = {(task.id, task.epoch, task.lapses) for task in (claim("a_b/2"), claim("a_b/2"))}
    assert again == {("t4", 1, 0), (old.id, old.epoch + 2, 1)}
    assert bench.units.run(lambda unit: taskrows.claim(unit, ["work"], "a_b/2", 15), isolation=READ) is None
    with pytest.raises(FencedOff):
        bench.units.run(lambda unit: taskrows.finish(unit, old))
    for task in (other, longer, deadly):
        bench.units.run(lambda unit, task=task: taskrows.finish(unit, task))  # type: ignore[misc]


def test_a_lease_has_one_holder_and_its_epoch_fences(bench: Bench) -> None:
    lease = bench.units.run(lambda unit: bench.leases.acquire(unit, "l", "a", 15))
    assert lease is not None
    assert bench.units.run(lambda unit: bench.leases.acquire(unit, "l", "b", 15)) is None
    bench.units.run(lambda unit: bench.leases.renew(unit, lease, 15))
    bench.units.run(lambda unit: unit.fence(lease))
    bench.units.run(lambda unit: bench.leases.release(unit, lease))
    taken = bench.units.run(lambda unit: bench.leases.acquire(unit, "l", "b", 15))
    assert taken is not None
    assert taken.epoch == lease.epoch + 1
    for use in (lambda unit: unit.fence(lease), lambda unit: bench.leases.renew(unit, lease, 15)):
        with pytest.raises(FencedOff):
            bench.units.run(use)


def test_a_lease_that_is_not_renewed_lapses(bench: Bench) -> None:
    assert bench.units.run(lambda unit: bench.leases.acquire(unit, "l", "a", 0.01)) is not None

    def taken() -> bool:
        bench.clock.advance(0.02)
        return bench.units.run(lambda unit: bench.leases.acquire(unit, "l", "b", 15)) is not None

    assert any(taken() for _ in range(1000))


def test_concurrent_charges_never_exceed_a_rate_limit(bench: Bench) -> None:
    limits, limit = Limits(bench.metadata), Limit(burst=20, per_second=0.001)
    bench.place.db.create(bench.metadata)
    clients = [bench.another(bench.place.client()) for _ in range(4)]

    def charge(at: int) -> bool:
        return clients[at % 4].run(lambda unit: limits.charge(unit, "key", limit)) == 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(charge, range(60))) == limit.burst


def test_refusals_of_a_minute_are_counted_in_one_row(bench: Bench) -> None:
    def refuse(at: int) -> None:
        bench.units.run(lambda unit: audit.refused(unit, "log in", "LINK_REFUSED", address=f"10.0.0.{at % 2}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(refuse, range(20)))
    records = bench.units.run(lambda unit: list(audit.newest(unit, 100)))
    assert len(records) <= 4  # two addresses, and the clock of a server may go on to the next minute
    assert {each.address for each in records} == {"10.0.0.0", "10.0.0.1"}
    assert sum(each.times for each in records) == 20
