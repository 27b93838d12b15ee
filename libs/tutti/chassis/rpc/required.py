"""Required fields of a request, and limits on how much it asks for: refused at the edge by name."""

from typing import Any

from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField


def required(request: Message, *paths: str) -> None:
    """Raise InvalidField for the first dotted path that holds nothing."""
    for path in paths:
        value: Any = request
        within: Any = None
        for part in path.split("."):
            within, value = value.DESCRIPTOR.fields_by_name[part], getattr(value, part)
        if not value:
            wanted = _names(within.enum_type) if within.enum_type else "a value"
            raise InvalidField(path, seen="nothing", expected=f"{wanted}; set {path} in {type(request).__name__}")


def check_values(request: Message) -> None:
    """Raise InvalidField for a text of the request with the character NUL, which databases do not store, and for a
    number that its enum does not have.
    """
    for field, value in request.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == field.TYPE_STRING and any("\0" in text for text in values):
            raise InvalidField(field.name, seen="text with the character NUL", expected="text without it")
        if field.enum_type is not None:
            for unknown in (number for number in values if number not in field.enum_type.values_by_number):
                raise InvalidField(field.name, seen=unknown, expected=_names(field.enum_type))


def _names(enum: Any) -> str:
    return " or ".join(value.name for value in enum.values if value.number)


def limit_of(request: Message, *, default: int, most: int) -> int:
    """The page size of the request, `default` when it has none. Raises InvalidField above `most`."""
    limit: int = getattr(request, "limit")  # noqa: B009
    if limit > most:
        raise InvalidField("limit", seen=limit, expected=f"at most {most}")
    return limit or default
