"""Events as sentences: what happened to which resource, for people."""

import re
from typing import Any

from google.protobuf.message import Message

from tutti.chassis.enums import word

SHOWN = 4
"""Fields of a fact that its sentence names."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def sentence(subject: str, type_name: str, message: Message | None) -> str:
    """Return what an event says: of a snapshot its state and reason, of a fact its name and its first fields."""
    name = _WORDS.sub(" ", type_name.rpartition(".")[2]).lower()
    if message is None:
        return f"{subject}: {name}"
    fields: Any = message.DESCRIPTOR.fields_by_name
    if "state" in fields and fields["state"].enum_type is not None:
        return f"{subject} is {_value(message, fields['state'])}{_step(message)}{_reason(message)}"
    if "revision" in fields and "name" in fields:
        return f"{subject} was written{_reason(message)}"
    told = [
        f"{field.name.replace('_', ' ')} {text}"
        for field in message.DESCRIPTOR.fields
        if field.message_type is None and not field.is_repeated and (text := _value(message, field)) and text != subject
    ]
    return f"{subject}: {name}{' (' if told else ''}{', '.join(told[:SHOWN])}{')' if told else ''}"


def _reason(message: Any) -> str:
    reason = getattr(message, "reason", "")
    return f": {reason}" if isinstance(reason, str) and reason else ""


def _step(message: Any) -> str:
    step = getattr(message, "step", 0)
    return f" at step {step:,}" if isinstance(step, int) and step else ""


def _value(message: Any, field: Any) -> str:
    value = getattr(message, field.name)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return word(field.enum_type, known.name) if known else str(value)
    return str(value) if value not in ("", 0, False, b"") else ""
