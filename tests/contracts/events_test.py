"""Events as consumers depend on them: where they travel, and that what was published once can be read for ever."""

from pathlib import Path

import pytest
from google.protobuf.message import Message
from tools import golden, house
from tools.pages import consumers, services

from tutti.backbone import Kind
from tutti.chassis.events.catalog import EventType, event_type, every_event
from tutti.chassis.rpc.kinds import owners
from tutti.chassis.runtime.parts import emitted
from tutti.contracts.scheduler.v1 import Job, RankLost

ROOT = Path(__file__).resolve().parents[2]

EVENTS = {event.type: event for event in every_event()}
GOLDEN = sorted(golden.FOLDER.glob("*/*.binpb"))


def test_no_event_moved() -> None:
    recorded = {line.split()[0]: line for line in golden.TABLE.read_text().splitlines()}
    found = {event.type: golden.row(event) for event in EVENTS.values()}
    moved = {name: (recorded[name], found.get(name)) for name in recorded if found.get(name) != recorded[name]}
    assert not moved, "another topic, key, kind or number of partitions is a new topic: declare a new event beside it"
    assert not found.keys() - recorded.keys(), "new events: run .venv/bin/python tools/golden.py"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_published_event_reads_as_it_was_written(path: Path) -> None:
    event = EVENTS.get(path.stem)
    assert event is not None, f"{path.stem} was published and is gone"
    assert golden.problems(event, path.read_bytes()) == []


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_the_golden_event_of_this_release_has_every_field(event: EventType) -> None:
    path = golden.path_of(event, golden.release())
    assert path.exists(), "run .venv/bin/python tools/golden.py"
    assert event.message.FromString(path.read_bytes()) == golden.filled(event.message)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_golden_event_leaves_no_field_at_its_default(event: EventType) -> None:
    def unset(message: Message, path: str) -> list[str]:
        values = {field.name: value for field, value in message.ListFields()}
        found = [f"{path}.{field.name}" for field in message.DESCRIPTOR.fields if field.name not in values]
        for field, value in message.ListFields():
            inner = list(value) if field.is_repeated else [value]
            found += [each for item in inner if field.message_type for each in unset(item, f"{path}.{field.name}")]
        return found

    assert unset(golden.filled(event.message), event.type) == []


def test_an_event_has_a_consumer_or_says_who_reads_it_outside() -> None:
    heard = consumers(services())
    wrong = {name for name, event in EVENTS.items() if (name in heard) == bool(event.external)}
    assert not wrong, "set `external` in the option of events that no service consumes, and of no others"


def test_an_event_that_is_no_longer_emitted_is_marked_so() -> None:
    emits = {event_type(message).type for each in services() for message in emitted(each)}
    deprecated = {name for name, event in EVENTS.items() if event.message.DESCRIPTOR.GetOptions().deprecated}
    assert deprecated == EVENTS.keys() - emits


def test_a_changed_field_reads_otherwise() -> None:
    """The control: a golden event of one type, read as another, is not mistaken for it."""
    data = golden.filled(RankLost).SerializeToString()
    assert golden.problems(EVENTS[Job.DESCRIPTOR.full_name], data)


def test_a_field_of_the_future_survives() -> None:
    tag_and_value = b"\xfa\xff\x07\x03new"  # field 16,383, length-delimited
    for event in EVENTS.values():
        read = event.message.FromString(golden.filled(event.message).SerializeToString() + tag_and_value)
        assert golden.unknown_fields(read) == [16_383]
        copy = event.message()
        copy.CopyFrom(read)
        assert copy.SerializeToString(deterministic=True).endswith(tag_and_value)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_event_belongs_to_the_service_of_its_package(event: EventType) -> None:
    assert event.type.split(".")[1] == event.owner
    assert event.owner in house.entry_points()
    assert event.topic.startswith(f"{event.owner}.")


def test_every_resource_with_a_state_topic_is_declared_as_a_kind() -> None:
    states = [event for event in EVENTS.values() if event.kind is Kind.STATE]
    assert {event.topic.partition(".")[2]: event.owner for event in states} == owners()
