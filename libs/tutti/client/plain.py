"""Messages as plain values: what `-o json` prints and scripts rely on.

Promises: every field is there even when unset; enums are their lower-case name without its prefix; 64-bit integers are
numbers; times are ISO 8601 in UTC or null; an optional field that is not set is null; a number that is not finite is
"NaN", "Infinity" or "-Infinity", as JSON has none.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from tutti.chassis import enums

Plain = dict[str, Any]


def plain(message: Message) -> Plain:
    """The fields of a message by their names in the proto."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        if isinstance(value, Mapping):
            return dict(value)
        return [_value(field, item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.ToJsonString()
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type is not None:
        return enum_name(field, value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value.hex() if isinstance(value, bytes) else value


def enum_name(field: Any, number: int) -> str:
    """`JOB_STATE_RUNNING` of `JobState` is "running"."""
    kind = field.enum_type
    assert kind is not None
    found = kind.values_by_number.get(number)
    if found is None:
        return f"unknown-{number}"
    return enums.word(kind, str(found.name))


def indented(value: object) -> str:
    """JSON for people, a line a key."""
    return json.dumps(value, indent=2, ensure_ascii=False)
