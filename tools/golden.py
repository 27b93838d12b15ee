"""Golden events: every event with every field filled by a fixed rule, as bytes that a later version must still read.

Promises: a value follows from the full name of its field alone, so a field that was renamed, renumbered, retyped or
removed reads differently; what no longer reads is never overwritten.
"""

import argparse
import sys
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from tutti.chassis.events.catalog import EventType, every_event

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests/contracts/golden"
TABLE = ROOT / "tests/contracts/events.txt"
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
}
ITEMS = 2


def release() -> str:
    """The release that is being made, such as `0.1`."""
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return ".".join(version.split(".")[:2])


def row(event: EventType) -> str:
    """What consumers depend on, as one line of the table."""
    return f"{event.type} {event.topic} {event.key} {event.kind.name} {event.partitions}"


def table(events: list[EventType]) -> str:
    return "".join(f"{row(event)}\n" for event in events)


def scalar(field: Any, index: int) -> Any:
    """The value of a field that holds no message: never its default."""
    seed = zlib.crc32(f"{field.full_name}#{index}".encode())
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return min(value.number for value in field.enum_type.values if value.number)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return True
    if field.cpp_type in INTEGERS:
        return seed % 1_000_000 + 1
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return seed % 1_000_000 + 0.5
    text = f"{field.full_name}#{index}"
    return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text


def filled(message: type[Message]) -> Message:
    """A message with every field set; a repeated one has two items, of a oneof the last one is set."""
    made = message()
    field: Any
    for field in made.DESCRIPTOR.fields:
        if field.is_repeated and field.message_type:
            for _ in range(ITEMS):
                getattr(made, field.name).add().CopyFrom(filled(GetMessageClass(field.message_type)))
        elif field.is_repeated:
            getattr(made, field.name).extend(scalar(field, index) for index in range(ITEMS))
        elif field.message_type:
            getattr(made, field.name).CopyFrom(filled(GetMessageClass(field.message_type)))
        else:
            setattr(made, field.name, scalar(field, 0))
    return made


def unknown_fields(message: Message) -> list[int]:
    """Numbers of the fields that were read and that this version does not know."""
    unknown: Any = UnknownFieldSet(message)
    return [each.field_number for each in unknown]


def differences(read: Message, expected: Message, path: str = "") -> Iterator[str]:
    """Where a golden event reads otherwise than it was written; fields added since are unset in it, as they should."""
    for number in unknown_fields(read):
        yield f"{path or read.DESCRIPTOR.name}: field {number} was removed or has another type"
    for field, value in read.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if not field.message_type:
            wanted = getattr(expected, field.name)
            if value != wanted:
                yield f"{here}: reads {value!r}, was written as {wanted!r}"
            continue
        items, others = (value, getattr(expected, field.name)) if field.is_repeated else ([value], None)
        others = [getattr(expected, field.name)] if others is None else others
        if len(items) != len(others):
            yield f"{here}: reads {len(items)} items, was written with {len(others)}"
        for index, (item, other) in enumerate(zip(items, others, strict=False)):
            yield from differences(item, other, f"{here}[{index}]" if field.is_repeated else here)


def problems(event: EventType, data: bytes) -> list[str]:
    """What keeps this version from reading a golden event as it was written."""
    try:
        read = event.message.FromString(data)
    except DecodeError as error:
        return [f"cannot be decoded: {error}"]
    return list(differences(read, filled(event.message)))


def path_of(event: EventType, of_release: str) -> Path:
    return FOLDER / of_release / f"{event.type}.binpb"


def write(event: EventType) -> None:
    """Write the golden event of this release; exits when one is there that no longer reads."""
    path = path_of(event, release())
    if path.exists() and (found := problems(event, path.read_bytes())):
        sys.exit(
            f"{path.relative_to(ROOT)} no longer reads: {'; '.join(found)}. Contracts only grow: undo the change, or, "
            f"if this release was never published, delete the file and run this again"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(filled(event.message).SerializeToString(deterministic=True))


def main() -> None:
    argparse.ArgumentParser(description="Record the events of this release in tests/contracts.").parse_args()
    events = every_event()
    known = set(TABLE.read_text().splitlines()) if TABLE.exists() else set()
    types = {line.split()[0] for line in known}
    moved = [event.type for event in events if event.type in types and row(event) not in known]
    if moved:
        sys.exit(
            f"{', '.join(moved)}: topic, key, kind or partitions changed. That is a new topic: declare a new event "
            f"beside the old one, or, if this release was never published, delete its line in "
            f"{TABLE.relative_to(ROOT)} and run this again"
        )
    if gone := types - {event.type for event in events}:
        sys.exit(f"{', '.join(sorted(gone))}: an event that was published stays; declare the new one beside it")
    for event in events:
        write(event)
    TABLE.write_text(table(events))
    print(f"{len(events)} events recorded for {release()}")


if __name__ == "__main__":
    main()
