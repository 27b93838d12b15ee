"""Required fields of a request, and limits on how much it asks for: refused at the edge by name."""

from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField


def required(request: Message, *paths: str) -> None:
    """Raise InvalidField for the first dotted path that holds nothing."""
    for path in paths:
        value: object = request
        for part in path.split("."):
            value = getattr(value, part)
        if not value:
            raise InvalidField(path, seen="nothing", expected=f"a value; set {path} in {type(request).__name__}")


def check_text(request: Message) -> None:
    """Raise InvalidField for a text of the request with the character NUL, which databases do not store."""
    for field, value in request.ListFields():
        if field.type == field.TYPE_STRING and any("\0" in text for text in (value if field.is_repeated else (value,))):
            raise InvalidField(field.name, seen="text with the character NUL", expected="text without it")


def limit_of(request: Message, *, default: int, most: int) -> int:
    """The page size of the request, `default` when it has none. Raises InvalidField above `most`."""
    limit: int = getattr(request, "limit")  # noqa: B009
    if limit > most:
        raise InvalidField("limit", seen=limit, expected=f"at most {most}")
    return limit or default
