"""Records on real Kafka that no handler can take, read into real Postgres: each is skipped or becomes a dead letter,
and the events behind it in the same partition go on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
from sqlalchemy import MetaData
from tests.faults.processes import until
from tests.scale import SOAK
from tests.web.hosted import hosted

from tutti.backbone import Record, SystemClock, SystemRandomness
from tutti.backbone.connect import open_database, open_log
from tutti.backbone.embedded.partitioner import partition_of
from tutti.backbone.kafka.brokers import Brokers
from tutti.backbone.kafka.subscription import as_record
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.deadletters import MAX_NAME_BYTES
from tutti.chassis.delivery.handling import UNSTORABLE
from tutti.chassis.events.catalog import event_type, topics_of
from tutti.chassis.events.event import Event
from tutti.chassis.service import Consumed, Host, Service
from tutti.chassis.store.tables import tables_of
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.admin.v1 import DoctorRequest, ListDeadLettersRequest, SettleDeadLetterRequest
from tutti.contracts.scheduler.v1 import JOB_STATE_QUEUED, Job, RankLost
from tutti.scheduler.service import build as build_scheduler

KIND = event_type(RankLost)
GOOD = "jobs/good"
POISON = 13
SECONDS = 60.0
Headers = Mapping[str, bytes]


def envelope(id: bytes, subject: bytes = GOOD.encode(), **others: bytes) -> Headers:
    return {
        "ce_id": id,
        "ce_type": KIND.type.encode(),
        "ce_subject": subject,
        "ce_time": b"2026-01-01T00:00:00+00:00",
        "revision": b"1",
        **others,
    }


def lost(step: int, job: str = GOOD) -> bytes:
    return RankLost(job=job, step=step).SerializeToString()


NUL, LONG = "jobs/n\0l", "jobs/" + "long" * MAX_NAME_BYTES
# Of each its key, value and headers, and the error of its dead letter; None: it is skipped.
RUBBISH: dict[str, tuple[bytes | None, bytes | None, Headers, str | None]] = {
    "nothing at all": (None, b"", {}, "the header ce_type is missing"),
    "bytes that are no envelope": (b"\xff\xfe", b"\x00\xff", {}, "the header ce_type is missing"),
    "a type that is no text": (b"\xff\xfe", b"", envelope(b"type", ce_type=b"\xff"), None),
    "an unknown type": (GOOD.encode(), lost(1), envelope(b"later", ce_type=b"tutti.scheduler.v1.Later"), None),
    "a subject that is no text": (b"\xff", lost(1), envelope(b"binary", b"\xff"), r"its key is '\\xff'"),
    "a header without a value": (b"jobs/none", lost(1), envelope(b"none", b""), "ce_subject is missing"),
    "a deleted snapshot": (b"jobs/gone", None, envelope(b"gone", b"jobs/gone"), "its key is 'jobs/gone'"),
    "a payload of another kind": (b"jobs/odd", b"\xff\xff", envelope(b"odd", b"jobs/odd"), "the payload of 2 bytes"),
    "a key with a NUL": (NUL.encode(), lost(1, NUL), envelope(b"nul", NUL.encode()), UNSTORABLE),
    "an id with a NUL": (b"jobs/id", lost(1, "jobs/id"), envelope(b"i\0d", b"jobs/id"), UNSTORABLE),
    "a key that no index holds": (LONG.encode(), lost(1, LONG), envelope(b"long", LONG.encode()), UNSTORABLE),
    "one that its handler refuses": (
        b"jobs/poison",
        lost(POISON, "jobs/poison"),
        envelope(b"poison", b"jobs/poison"),
        r"ValueError: n\x00t this one",
    ),
}


class Reader:
    """A consumer of facts about ranks, and the steps that it handled."""

    def __init__(self, kafka_url: str, postgres_url: str, group: str) -> None:
        metadata = MetaData()
        tables_of(metadata)
        self.database = open_database(postgres_url, group)
        self.database.create(metadata)
        units = Units(self.database, group, metadata, clock=SystemClock(), randomness=SystemRandomness())
        self.log, self.handled = open_log(kafka_url), list[int]()
        self.log.ensure(topics_of([RankLost]))
        self.consumer = Consumer(units, self.log, [Consumed(RankLost, self._on_lost)], group=group)

    def _on_lost(self, unit: Unit, events: Sequence[Event]) -> None:
        for event in events:
            if event.message.step == POISON:
                raise ValueError("n\0t this one")
        unit.on_commit(lambda: self.handled.extend(event.message.step for event in events))

    def read_until(self, condition: Callable[[], bool], what: str) -> None:
        def there() -> bool:
            self.consumer.step()
            return condition()

        until(there, seconds=SECONDS, what=what)

    def close(self) -> None:
        self.consumer.close()
        self.log.close()
        self.database.close()


@pytest.fixture
def reader(kafka_url: str, postgres_url: str, unique: str) -> Iterator[Reader]:
    with closing(Reader(kafka_url, postgres_url, unique)) as opened:
        yield opened


@pytest.fixture
def foreign(kafka_url: str) -> Iterator[Callable[..., None]]:
    """Appends a record as another program may: any key, value and headers, in the partition of the good subject."""
    producer = kafka.KafkaProducer(**Brokers.parse(kafka_url).settings())
    partition = partition_of(GOOD, KIND.partitions)

    def append(key: bytes | None, value: bytes | None, headers: Headers) -> None:
        producer.send(KIND.topic, value, key, list(headers.items()), partition).get(timeout=SECONDS)

    yield append
    producer.close()


def test_rubbish_on_kafka_is_put_aside_and_others_go_on(reader: Reader, foreign: Callable[..., None]) -> None:
    foreign(GOOD.encode(), lost(1), envelope(b"first"))
    for key, value, headers, _ in RUBBISH.values():
        foreign(key, value, headers)
    foreign(GOOD.encode(), lost(2), envelope(b"second"))
    reader.read_until(lambda: 2 in reader.handled, "the event behind the rubbish")
    assert reader.handled == [1, 2]
    letters = reader.consumer.dead_letters()
    expected = [error for *_, error in RUBBISH.values() if error is not None]
    assert len(letters) == len(expected)
    for letter, error in zip(letters, expected, strict=True):
        assert error in str(letter.error)
    assert [letter.id for letter in letters if letter.id.startswith("i")] == [r"i\x00d"]
    for letter in letters:
        reader.consumer.settle(letter.id, discard=True)
    assert reader.consumer.dead_letters() == []
    foreign(GOOD.encode(), lost(3), envelope(b"third"))
    reader.read_until(lambda: 3 in reader.handled, "the next event")
    assert reader.consumer.dead_letters() == []


def test_a_key_and_a_header_may_have_no_value() -> None:
    foreign = SimpleNamespace(
        topic="t", partition=0, offset=7, key=None, value=None, headers=[("ce_id", None)], timestamp=1
    )
    assert as_record(foreign) == Record("t", 0, 7, "", b"", {"ce_id": ""}, 1)


@pytest.mark.skipif(not SOAK, reason="a soak row; the records of the test above are of the same kind")
def test_the_doctor_names_a_service_that_cannot_take_an_event_and_others_go_on(
    own_server: Callable[[str], Any], tmp_path: Path
) -> None:
    seen, refused = list[str](), {"jobs/poison"}

    def build(host: Host) -> Service:
        def on_job(unit: Unit, events: Sequence[Event]) -> None:
            names = [event.message.name for event in events]
            if refused.intersection(names):
                raise ValueError("this job is not for me")
            unit.on_commit(lambda: seen.extend(names))

        return Service(name="lineage", resources=[], consumes=[Consumed(Job, on_job)])

    stores = (f"log.url={own_server('kafka').up()}", f"database.url={own_server('postgres').up()}")
    builds = {"scheduler": build_scheduler, "lineage": build}
    with hosted(tmp_path / "platform", *stores, builds=builds) as platform, platform.client() as client:
        for name in ("jobs/poison", "jobs/good"):
            platform.plant("scheduler", Job(name=name, state=JOB_STATE_QUEUED))
        until(lambda: "jobs/good" in seen, seconds=SECONDS, what="the event of another subject")
        until(
            lambda: bool(client.admin.ListDeadLetters(ListDeadLettersRequest()).dead_letters),
            seconds=SECONDS,
            what="a dead letter",
        )
        (letter,) = client.admin.ListDeadLetters(ListDeadLettersRequest()).dead_letters
        assert (letter.service, letter.subject) == ("lineage", "jobs/poison")
        assert letter.error == "ValueError: this job is not for me"
        found = client.admin.Doctor(DoctorRequest())
        (finding,) = [each for each in found.findings if each.check == "dead letters" and not each.ok]
        assert finding.service == "lineage"
        assert "tutti events dead settle lineage ID" in finding.message
        refused.clear()
        client.admin.SettleDeadLetter(SettleDeadLetterRequest(service="lineage", event_id=letter.event_id))
        assert "jobs/poison" in seen
        found = client.admin.Doctor(DoctorRequest())
        assert [each for each in found.findings if each.check == "dead letters" and not each.ok] == []
