"""Required fields of a request: refused at the edge by name."""

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
