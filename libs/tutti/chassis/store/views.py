"""The SQL views of a service: one for each kind of resource, its events and its tasks.

Promises: a column for each field of a resource; times are timestamps, states are words, nested messages are JSON.
Tables that a service keeps for itself, such as those with personal data, have no view.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tutti.backbone.database import Readable
from tutti.chassis.store.resources import Resource

_TIME, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_KINDS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_ENUM: "enum",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_UINT32: "unsigned",
    FieldDescriptor.TYPE_UINT64: "unsigned",
    FieldDescriptor.TYPE_SINT32: "zigzag",
    FieldDescriptor.TYPE_SINT64: "zigzag",
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_INT32: "signed",
    FieldDescriptor.TYPE_INT64: "signed",
}
_TYPES = {"bool": "boolean", "double": "float8", "float": "float8", "duration": "numeric", "time": "timestamptz"}
_EVENTS = (
    "SELECT seq, id, type, topic, kind, subject, revision, to_timestamp(made_at / 1e6) AS made_at, "
    "to_timestamp(sent_at / 1e6) AS sent_at, headers::jsonb AS headers, {views}.decode(payload, type) AS payload "
    "FROM {schema}.outbox"
)
_TASKS = (
    "SELECT id, kind, resource, state, attempt, failures, lapses, holder, to_timestamp(due_at / 1e6) AS due_at, "
    "to_timestamp(made_at / 1e6) AS made_at, to_timestamp(expires_at / 1e6) AS expires_at, reason FROM {schema}.tasks"
)
Messages = dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]


def readable(resources: Sequence[Resource[Any]], events: Sequence[type[Message]]) -> Readable:
    """Return the views of a service with these resources, which emits these events."""
    messages: Messages = {}
    for message in [*(resource.message for resource in resources), *events]:
        _add(message.DESCRIPTOR, messages)
    views = {resource.table.name: _view(resource) for resource in resources}
    return Readable(messages, {**views, "events": _EVENTS, "tasks": _TASKS})


def columns(message: Descriptor) -> Iterator[tuple[str, str]]:
    """Name and SQL type of each column of a resource's view."""
    for field in message.fields:
        yield field.name, _sql_type(field)


def _view(resource: Resource[Any]) -> str:
    """OFFSET 0 keeps Postgres from decoding once a column."""
    shown = []
    for name, kind in columns(resource.message.DESCRIPTOR):
        found = f"m.body -> '{name}'" if kind == "jsonb" else f"(m.body ->> '{name}')::{kind}"
        shown.append(f'{found} AS "{name}"')
    decoded = f"{{views}}.decode(body, '{resource.message.DESCRIPTOR.full_name}') AS body"
    return f"SELECT {', '.join(shown)} FROM (SELECT {decoded} FROM {{schema}}.{resource.table.name} OFFSET 0) m"  # noqa: S608


def _sql_type(field: FieldDescriptor) -> str:
    kind = _kind(field)
    if field.is_repeated or kind in ("message", "map"):
        return "jsonb"
    if kind == "unsigned":
        return "numeric"
    return _TYPES.get(kind, "text" if kind in ("string", "bytes", "enum") else "bigint")


def _kind(field: FieldDescriptor) -> str:
    inner = field.message_type
    if inner is None:
        return _KINDS[field.type]
    if inner.GetOptions().map_entry:
        return "map"
    return {_TIME: "time", _DURATION: "duration"}.get(inner.full_name, "message")


def _add(message: Descriptor, messages: Messages) -> None:
    if message.full_name in messages:
        return
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    messages[message.full_name] = fields, defaults
    for field in message.fields:
        kind = _kind(field)
        fields[str(field.number)] = told = {"name": field.name, "kind": kind, "repeated": field.is_repeated}
        defaults[field.name] = _default(field, kind)
        if field.message_type is not None:
            told["type"] = field.message_type.full_name
            _add(field.message_type, messages)
        if field.enum_type is not None:
            told["values"] = {str(value.number): value.name for value in field.enum_type.values}


def _default(field: FieldDescriptor, kind: str) -> Any:
    if kind == "map":
        return {}
    if field.is_repeated:
        return []
    if field.has_presence:
        return None
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    return "" if kind in ("string", "bytes") else field.default_value
