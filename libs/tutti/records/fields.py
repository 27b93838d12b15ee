"""Typed reading of JSON objects: a field at a time, or a record by its annotations.

A field that is missing or of another type is named by its path; nothing is guessed or converted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from tutti.records.canonical import JsonValue, is_digest
from tutti.records.errors import CorpusError, InvalidManifest
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import later_names, read_later

T = TypeVar("T")
Digest: TypeAlias = Annotated[str, "digest"]
"""The annotation of a field that holds a `blake3:<hex>` digest."""


class Fields:
    """One JSON object; `error` is the exception that its owner raises."""

    def __init__(self, value: object, *, path: str, error: type[CorpusError]) -> None:
        if not isinstance(value, Mapping):
            raise error(f"{path}: expected an object, seen {type(value).__name__}")
        self._value: Mapping[str, object] = value
        self._path = path
        self._error = error

    @classmethod
    def of(cls, manifest: Manifest, kind: Kind) -> Fields:
        """Return the body of a manifest. Raises InvalidManifest if it is of another kind."""
        if manifest.kind != kind:
            raise InvalidManifest(f"a manifest of kind {str(manifest.kind)!r}, expected {str(kind)!r}")
        return cls(manifest.body, path="body", error=InvalidManifest)

    def record(self, kind: type[T], **read: Any) -> T:
        """Read a frozen dataclass by the annotations of its fields; `read` holds fields that the caller has read.

        Fields are texts (`str`), digests (`Digest`), counts (`int`), numbers (`float`), flags (`bool`), records,
        mappings of names to counts, and tuples of texts, counts or records. A record with a method `read` is read by
        that. A field with a default may be missing. Raises TypeError for another annotation.
        """
        plain: type = kind
        for name, annotation, required in annotations_of(plain):
            if name not in read and (required or name in self._value):
                read[name] = self._as(name, annotation)
        return kind(**read, **self.later(kind))

    def later(self, kind: type) -> dict[str, Any]:
        """The fields of the record `kind` that later versions added and that are here, for its constructor."""
        try:
            return read_later(kind, self._value)
        except ValueError as error:
            raise self._error(f"{self._path}.{error}") from error

    def has(self, key: str) -> bool:
        """True if the field is present."""
        return key in self._value

    def text(self, key: str, *, missing: str | None = None) -> str:
        """A string; `missing` where an earlier version had no such field."""
        return self._typed(key, str, "a string") if missing is None or key in self._value else missing

    def digest(self, key: str) -> str:
        """A `blake3:<hex>` digest."""
        text = self.text(key)
        if not is_digest(text):
            raise self._error(f"{self._path}.{key}: {text!r} is no digest; expected blake3: and 64 hex characters")
        return text

    def count(self, key: str, *, missing: int | None = None) -> int:
        """An integer, at least 0; `missing` where an earlier version had no such field."""
        value = self._get(key) if missing is None or key in self._value else missing
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._error(f"{self._path}.{key}: expected an integer of at least 0, seen {value!r}")
        return value

    def number(self, key: str) -> float:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(f"{self._path}.{key}: expected a number, seen {value!r}")
        return float(value)

    def flag(self, key: str) -> bool:
        """True or false."""
        return self._typed(key, bool, "true or false")

    def nested(self, key: str) -> Fields:
        return Fields(self._get(key), path=f"{self._path}.{key}", error=self._error)

    def objects(self, key: str, *, missing: Sequence[object] | None = None) -> list[Fields]:
        """A list of objects; `missing` where an earlier version had no such field."""
        items = self._list(key) if missing is None or key in self._value else missing
        return [
            Fields(item, path=f"{self._path}.{key}[{index}]", error=self._error) for index, item in enumerate(items)
        ]

    def texts(self, key: str, *, missing: Sequence[str] | None = None) -> list[str]:
        """A list of strings; `missing` where an earlier version had no such field."""
        items = self._list(key) if missing is None or key in self._value else missing
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self._error(f"{self._path}.{key}[{index}]: expected a string, seen {item!r}")
        return [str(item) for item in items]

    def counts(self, key: str) -> list[int]:
        """A list of integers, each at least 0."""
        found = []
        for index, item in enumerate(self._list(key)):
            if isinstance(item, bool) or not isinstance(item, int) or item < 0:
                raise self._error(f"{self._path}.{key}[{index}]: expected an integer of at least 0, seen {item!r}")
            found.append(item)
        return found

    def value(self, key: str) -> JsonValue:
        """Whatever is there, unread."""
        value: JsonValue = self._get(key)  # type: ignore[assignment]
        return value

    def _as(self, key: str, annotation: Any) -> Any:
        if annotation in (simple := self._simple()):
            return simple[annotation](key)
        if dataclasses.is_dataclass(annotation):
            return _record(self.nested(key), annotation)
        match get_origin(annotation), get_args(annotation):
            case (origin, (kind, end)) if origin is tuple and end is ...:
                if dataclasses.is_dataclass(kind):
                    return tuple(_record(each, kind) for each in self.objects(key))
                if kind in (str, int):
                    return tuple(self.texts(key) if kind is str else self.counts(key))
            case (origin, (kind, value)) if origin is Mapping and (kind, value) == (str, int):
                inner = self.nested(key)
                return {name: inner.count(name) for name in inner._value}
        raise TypeError(f"{key}: a field of type {annotation} is not read by its annotation")

    def _simple(self) -> Mapping[Any, Callable[[str], Any]]:
        return {Digest: self.digest, str: self.text, int: self.count, float: self.number, bool: self.flag}

    def _list(self, key: str) -> Sequence[object]:
        return self._typed(key, list, "a list")

    def _typed(self, key: str, wanted: type[T], name: str) -> T:
        value = self._get(key)
        if not isinstance(value, wanted):
            raise self._error(f"{self._path}.{key}: expected {name}, seen {value!r}")
        return value

    def _get(self, key: str) -> object:
        if key not in self._value:
            raise self._error(f"{self._path}.{key}: missing")
        return self._value[key]


def _record(fields: Fields, kind: Any) -> Any:
    return kind.read(fields) if hasattr(kind, "read") else fields.record(kind)


@cache
def annotations_of(kind: type) -> Sequence[tuple[str, Any, bool]]:
    """The name and annotation of each field that is no later one, and whether it is required."""
    hints, later = get_type_hints(kind, include_extras=True), later_names(kind)
    return [
        (field.name, hints[field.name], field.default is field.default_factory is dataclasses.MISSING)
        for field in dataclasses.fields(kind)
        if field.name not in later
    ]
