"""Records: frozen dataclasses whose canonical JSON is hashed, and how they grow.

`written` makes JSON of a record, and `Fields.record` (`tutti.records.fields`) reads it, both by the fields alone.

A field that is added to a record is declared with `later`. It is written only where it differs from its default, and
absent means the default, so that records of earlier versions keep their bytes and digests. Fields without `later` are
always written. A value has one spelling: a later field written at its default is refused, and so is an unknown field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

from tutti.records.canonical import JsonValue

T = TypeVar("T")
_SINCE, _READ = "since", "read"


def later(default: T, *, since: str, read: Callable[[Any], T] | None = None) -> T:
    """A field of a record that version `since` added; `read` makes its value from JSON where that is another type."""
    made: T = dataclasses.field(default=default, metadata={_SINCE: since, _READ: read})
    return made


def written(record: Any) -> dict[str, JsonValue]:
    """The record as JSON: dataclasses as objects, at any depth without later fields that have their default.

    `dataclasses.asdict` would write those of nested records.
    """
    return {
        field.name: _plain(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if not (_SINCE in field.metadata and getattr(record, field.name) == field.default)
    }


def written_later(record: Any) -> dict[str, JsonValue]:
    """The later fields of a record alone, for records that spell their other fields by hand."""
    names = later_names(type(record))
    return {name: value for name, value in written(record).items() if name in names} if names else {}


def later_names(kind: type) -> set[str]:
    """The names of the later fields of a record."""
    return {field.name for field in _later_fields(kind)}


def read_later(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    """The later fields of `kind` that are in `value`, as arguments of its constructor.

    Raises ValueError for one that is written at its default.
    """
    found = {}
    for field in _later_fields(kind):
        if field.name not in value:
            continue
        made = (field.metadata[_READ] or _same_type(field))(value[field.name])
        if made == field.default:
            raise ValueError(f"{field.name} is written at its default, {field.default!r}; leave it out")
        found[field.name] = made
    return found


def unread(value: Mapping[str, Any], again: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of fields in `value` that are not in `again`, which is what was read, written again."""
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        if key not in again:
            yield here
            continue
        yield from _unread_below(item, again[key], here)


def _unread_below(item: Any, again: Any, path: str) -> Iterator[str]:
    if isinstance(item, Mapping) and isinstance(again, Mapping):
        yield from unread(item, again, path)
    elif isinstance(item, list) and isinstance(again, list | tuple) and item and not isinstance(item[0], int | str):
        for at, (one, other) in enumerate(zip(item, again, strict=False)):
            yield from _unread_below(one, other, f"{path}[{at}]")


def _same_type(field: dataclasses.Field[Any]) -> Callable[[Any], Any]:
    """A `read` that takes values of the default's type, and integers for a float."""
    kind = type(field.default)

    def read(value: Any) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise ValueError(f"{field.name} is {value!r}; expected {kind.__name__}")
        return value

    return read


def _later_fields(kind: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if _SINCE in field.metadata]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return written(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value
