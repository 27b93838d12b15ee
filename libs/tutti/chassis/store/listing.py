"""Pages of a list: their size, filter and token.

Promises: a page continues after the last name of the one before, so it stays true under writes; a token of another
list or filter is refused, as is a filter over a field that is not indexed.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti.chassis.enums import word
from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import ListRequest

DEFAULT_SIZE, MAX_SIZE = 100, 1000
Value = str | int
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """`equal`: the filter by column; `after`: the last name of the page before."""

    size: int
    after: str
    equal: Mapping[str, Value]


def parse(request: ListRequest, kind: str, columns: Mapping[str, type[Value]], fields: Fields) -> Page:
    """Raises InvalidField."""
    if request.page_size > MAX_SIZE:
        raise InvalidField("page_size", seen=request.page_size, expected=f"at most {MAX_SIZE}")
    equal = _filter(request.filter, columns, fields)
    after = _untoken(request.page_token, kind, request.filter) if request.page_token else ""
    return Page(request.page_size or DEFAULT_SIZE, after, equal)


def token(kind: str, request: ListRequest, last: str) -> str:
    return packed(kind, request.filter, last)


def packed(*parts: Value) -> str:
    """A token that says all of this."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


def unpacked(text: str) -> list[Any]:
    """The content of a page token; empty if it is not a token."""
    try:
        found = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (ValueError, binascii.Error):
        return []
    return found if isinstance(found, list) else []


def _untoken(text: str, kind: str, asked: str) -> str:
    found = unpacked(text)
    if not (len(found) == 3 and found[:2] == [kind, asked] and isinstance(found[2], str)):
        raise InvalidField("page_token", seen=text, expected=f"next_page_token of {kind} with the same filter")
    return str(found[2])


def _filter(text: str, columns: Mapping[str, type[Value]], fields: Fields) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in re.split(r"\s+AND\s+", text.strip()) if text.strip() else ():
        field, equals, value = (part.strip() for part in pair.partition("="))
        known = ", ".join(sorted(columns)) or "none"
        if not equals or field not in columns:
            raise InvalidField("filter", seen=text, expected=f'"field=value" joined by " AND " with fields {known}')
        found[field] = _value(text, field, value.strip('"'), columns[field], fields)
    return found


def _value(text: str, field: str, value: str, kind: type[Value], fields: Fields) -> Value:
    if kind is str:
        return value
    declared = fields.get(field)
    names = {} if declared is None or declared.enum_type is None else _names(declared.enum_type)
    if value in names:
        return names[value]
    try:
        return int(value)
    except ValueError:
        words = f" or one of {', '.join(each for each in names if each.islower())}" if names else ""
        raise InvalidField("filter", seen=text, expected=f"a whole number{words} for {field}") from None


def _names(enum: Any) -> dict[str, int]:
    """The numbers of an enum by their names, and by these as they are printed: `running`."""
    known = {name: int(value.number) for name, value in enum.values_by_name.items()}
    return {each: number for name, number in known.items() for each in (name, word(enum, name))}
