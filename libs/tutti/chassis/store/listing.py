"""Pages of a list: their size, filter and token.

Promises: a page continues after the last name of the one before, so it stays true under writes; a token of another
list or filter is refused, as is a filter over a field that is not indexed.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tutti.chassis.enums import word
from tutti.chassis.errors import InvalidField
from tutti.chassis.store.columns import WORD, WORD_RULE, having
from tutti.contracts.common.v1 import ListRequest

DEFAULT_SIZE, MAX_SIZE = 100, 1000
TRUTH = {"true": 1, "false": 0}
Value = str | int
Types = Mapping[str, type]
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """`equal`, `having`: the filter by column, and by words of columns; `after`: the last name of the page before."""

    size: int
    after: str
    equal: Mapping[str, Value]
    having: Sequence[tuple[str, str]] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of words that are filtered by, once for each word."""
        return tuple(field for field, _ in self.having)

    @property
    def values(self) -> dict[str, Value]:
        """The parameters of a query that filters by both."""
        return {**self.equal, **{f"having_{at}": having(word) for at, (_, word) in enumerate(self.having)}}


def parse(request: ListRequest, kind: str, columns: Types, fields: Fields) -> Page:
    """Raises InvalidField."""
    if request.page_size > MAX_SIZE:
        raise InvalidField("page_size", seen=request.page_size, expected=f"at most {MAX_SIZE}")
    equal, words = _filter(request.filter, columns, fields)
    after = _untoken(request.page_token, kind, request.filter) if request.page_token else ""
    return Page(request.page_size or DEFAULT_SIZE, after, equal, words)


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


def _filter(text: str, columns: Types, fields: Fields) -> tuple[dict[str, Value], list[tuple[str, str]]]:
    """The filter by column, and by words of columns. Raises InvalidField, about the first part that is wrong."""
    equal, words = dict[str, Value](), list[tuple[str, str]]()
    for pair in re.split(r"\s+AND\s+", text.strip()) if text.strip() else ():
        field, colon, word = (part.strip() for part in pair.partition(":"))
        if colon and columns.get(field) is tuple:
            words.append((field, _word(pair, word)))
            continue
        field, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or columns.get(field, tuple) is tuple:
            raise InvalidField("filter", seen=pair, expected=_rule(columns))
        equal[field] = _value(pair, field, value.strip('"'), columns[field], fields)
    return equal, words


def _rule(columns: Types) -> str:
    known = ", ".join(sorted(name for name, kind in columns.items() if kind is not tuple)) or "none"
    several = ", ".join(f'"{name}:word"' for name, kind in sorted(columns.items()) if kind is tuple)
    return f'"field=value"{f" or {several}" if several else ""} joined by " AND " with fields {known}'


def _word(pair: str, word: str) -> str:
    if not WORD.fullmatch(word):
        raise InvalidField("filter", seen=pair, expected=f"a word of {WORD_RULE}, after the colon")
    return word


def _value(pair: str, field: str, value: str, kind: type, fields: Fields) -> Value:
    if kind is str:
        return value
    declared = fields.get(field)
    names = {} if declared is None or declared.enum_type is None else _names(declared.enum_type)
    names = TRUTH if kind is bool else names
    if value in names:
        return names[value]
    if kind is bool:
        raise InvalidField("filter", seen=pair, expected=f"true or false for {field}")
    try:
        return int(value)
    except ValueError:
        words = f" or one of {', '.join(each for each in names if each.islower())}" if names else ""
        raise InvalidField("filter", seen=pair, expected=f"a whole number{words} for {field}") from None


def _names(enum: Any) -> dict[str, int]:
    """The numbers of an enum by their names, and by these as they are printed: `running`."""
    known = {name: int(value.number) for name, value in enum.values_by_name.items()}
    return {each: number for name, number in known.items() for each in (name, word(enum, name))}
