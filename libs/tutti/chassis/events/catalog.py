"""The catalogue of events, read from the options of the protos.

Promises: every event has a topic, a key field, a kind, partitions and an owner (its proto package); two events of a
topic agree on kind and partitions; a message that declares too little is refused when it is first asked for.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from tutti.backbone.eventlog import Kind, Topic
from tutti.contracts.options.v1 import KIND_FACT, KIND_STATE, event


class BadCatalogue(Exception):
    """An event's declaration is incomplete or contradicts another's."""


@dataclass(frozen=True)
class EventType:
    """`external`: who outside of the platform reads it, where no service does."""

    message: type[Message]
    type: str
    topic: str
    key: str
    kind: Kind
    partitions: int
    owner: str
    external: str = ""

    def to_topic(self) -> Topic:
        return Topic(self.topic, self.kind, self.partitions)


_KINDS = {KIND_STATE: Kind.STATE, KIND_FACT: Kind.FACT}


def is_event(message: type[Message]) -> bool:
    return message.DESCRIPTOR.GetOptions().HasExtension(event)


_known: dict[str, EventType] = {}


def event_type(message: type[Message]) -> EventType:
    """The event type that the options of a message declare. Raises BadCatalogue."""
    name = message.DESCRIPTOR.full_name
    found = _known.get(name)
    if found is None:
        found = _known[name] = _read(message)
    return found


def _read(message: type[Message]) -> EventType:
    descriptor = message.DESCRIPTOR
    if not is_event(message):
        raise BadCatalogue(f"{descriptor.full_name} has no (tutti.options.v1.event) option, so it is not an event")
    option = descriptor.GetOptions().Extensions[event]
    kind = _KINDS.get(option.kind)
    field = descriptor.fields_by_name.get(option.key)
    if kind is None or not option.topic or not option.partitions:
        raise BadCatalogue(f"{descriptor.full_name}: topic, kind and partitions must be set")
    if field is None or field.type != FieldDescriptor.TYPE_STRING or field.is_repeated:
        raise BadCatalogue(f"{descriptor.full_name}: key {option.key!r} must name a string field of it")
    if kind is Kind.FACT and not option.topic.endswith(".facts"):
        raise BadCatalogue(f"{descriptor.full_name}: the topic {option.topic!r} of a FACT must end in .facts")
    if kind is Kind.STATE and (option.key != "name" or "revision" not in descriptor.fields_by_name):
        raise BadCatalogue(f"{descriptor.full_name}: a STATE event is a resource: name (its key), revision")
    return EventType(
        message,
        descriptor.full_name,
        option.topic,
        option.key,
        kind,
        option.partitions,
        owner_of(descriptor.file.package),
        option.external,
    )


def topics_of(messages: Iterable[type[Message]]) -> list[Topic]:
    """The topics of these events, each once, by name. Raises BadCatalogue where two events of a topic disagree."""
    found: dict[str, EventType] = {}
    for message in messages:
        each = event_type(message)
        other = found.setdefault(each.topic, each)
        if (other.kind, other.partitions) != (each.kind, each.partitions):
            raise BadCatalogue(f"{other.type} and {each.type} disagree on the kind or partitions of {each.topic}")
    return [each.to_topic() for _, each in sorted(found.items())]


def every_event() -> list[EventType]:
    """All events of the product's contracts, by topic and type."""
    found = [event_type(message) for message in every_message() if is_event(message)]
    topics_of(each.message for each in found)
    return sorted(found, key=lambda each: (each.topic, each.type))


def every_message() -> Iterator[type[Message]]:
    """The messages of the product's contracts, package by package."""
    import tutti.contracts as contracts

    for module_name in _domains(contracts.__path__):
        package = importlib.import_module(module_name)
        for name in package.__all__:
            value = getattr(package, name)
            if isinstance(value, type) and issubclass(value, Message):
                yield value


def markdown(events: Sequence[EventType]) -> str:
    """The page docs/events.md."""
    lines = [
        "# Events",
        "",
        "Generated from the options of the protos by `tools/pages.py`; do not edit.",
        "",
        "A STATE event is a full snapshot of a resource: the newest revision wins, and the topic is compacted. FACT",
        "events are immutable and commutative, and their topic expires. The key is the field with the name of the",
        "resource. The number of partitions is part of the identity of a topic.",
        "",
        "| topic | type | kind | key | partitions | owner |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{each.topic}` | `{each.type}` | {each.kind.name} | `{each.key}` | {each.partitions} | {each.owner} |"
        for each in events
    ]
    return "\n".join([*lines, ""])


def owner_of(package: str) -> str:
    """Return the service that owns a proto package: `tutti.scheduler.v1` -> `scheduler`."""
    parts = package.split(".")
    return parts[1] if parts[0] == "tutti" and len(parts) == 3 else package


def _domains(path: Iterable[str]) -> list[str]:
    found = pkgutil.walk_packages(path, "tutti.contracts.")
    return sorted(module.name for module in found if module.ispkg and module.name.rpartition(".")[2].startswith("v"))
