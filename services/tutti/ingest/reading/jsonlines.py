"""JSON lines: an object a line, its text in one field, its `url` and `title` in others; and JSON: lines, or one list.

A line that is no object, or has no text, is a rejection with its number and how it begins; so is one of very many
values, which would take 27 times the memory that the line takes. A field in an object is named with a dot, as in
`content.text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tutti.corpus.files.budgets import Spent
from tutti.corpus.files.jsonvalues import (
    MARK,
    MOST_VALUES,
    QUOTED,
    ManyValues,
    decode,
    lines,
    lines_or_whole,
    opened,
    too_long_list,
)
from tutti.corpus.files.packed import damage, why
from tutti.ingest.reading.containers import Record, RecordOptions, Text, source_of
from tutti.ingest.reading.rejections import Reason, Rejection, over_budget


def read_json_lines(path: Path, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The records of a file, in its order; empty lines are none."""
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(lines(file, wanted.max_bytes), 1):
                yield from _records(line, number, source, wanted)
    except Spent as spent:
        yield over_budget(source, f"line {number}", spent)
    except damage() as error:
        yield _damaged(source, number, error)


def read_json(path: Path, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The records of a file that is one list, or an object, or whose lines are objects."""
    number = 0
    try:
        with opened(path) as file:
            of_lines, texts = lines_or_whole(file, wanted.max_bytes, wanted.max_bytes)
            for number, text in enumerate(texts, 1):
                if of_lines:
                    yield from _records(text, number, source, wanted)
                elif text is None:
                    yield Rejection(source, Reason.TOO_LARGE, too_long_list(wanted.max_bytes))
                elif text.strip():
                    yield from _items(text, source, wanted)
    except Spent as spent:
        yield over_budget(source, f"line {number}", spent)
    except damage() as error:
        yield _damaged(source, number, error)


def _damaged(source: str, number: int, error: BaseException) -> Rejection:
    detail = f"after line {number} the file cannot be read ({why(error)}): it is cut or damaged"
    return Rejection(source, Reason.DAMAGED, detail)


def _records(line: bytes | None, number: int, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The record of a line; none of an empty one."""
    place = f"{source}:{number}"
    if line is None:
        yield Rejection(place, Reason.TOO_LARGE, f"a line of more than {wanted.max_bytes} bytes")
    elif stripped := line.removeprefix(MARK if number == 1 else b"").strip():
        found = _decoded(stripped, place)
        yield found if isinstance(found, Rejection) else _record(found, place, wanted)


def _items(text: bytes, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The records of a list, or the one that a value is."""
    found = _decoded(text.strip(), source)
    if isinstance(found, Rejection):
        yield found
        return
    for number, each in enumerate(found if isinstance(found, list) else [found], 1):
        yield _record(each, f"{source}:{number}", wanted)


def _decoded(text: bytes, place: str) -> object:
    """The value of JSON text, or a Rejection."""
    try:
        return decode(text)
    except ManyValues:
        detail = f"more than {MOST_VALUES:,} values in a line: leave out fields that are no text"
        return Rejection(place, Reason.TOO_LARGE, detail)
    except (ValueError, RecursionError) as error:
        begin = text[:QUOTED].decode("utf-8", "backslashreplace")
        what = "nested too deep" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        return Rejection(place, Reason.MALFORMED, f"{what}; begins with {begin!r}")


def _record(found: object, place: str, wanted: RecordOptions) -> Record:
    if not isinstance(found, dict):
        return Rejection(place, Reason.MALFORMED, f"expected an object, seen {type(found).__name__}")
    text, title = _field(found, wanted.text_field), found.get("title")
    if not isinstance(text, str):
        seen = "is missing" if text is None else "is no string"
        texts = ", ".join(map(ascii, _texts(found)))[:200] or "none"
        detail = f"the field {wanted.text_field!r} {seen}; texts are in: {texts} (input.text_field names it)"
        return Rejection(place, Reason.NO_TEXT, detail)
    return Text(source_of(found.get("url"), place), text, title if isinstance(title, str) else "")


def _field(record: Mapping[str, object], name: str) -> object:
    """The value of a field; one with a dot may be in an object that is a field."""
    if name in record:
        return record[name]
    outer, dot, inner = name.partition(".")
    value = record.get(outer) if dot else None
    return _field(value, inner) if isinstance(value, dict) else None


def _texts(record: Mapping[str, object], within: str = "") -> list[str]:
    """The names of fields that are strings, the longest first, at most ten."""
    found = [(len(value), f"{within}{name}") for name, value in record.items() if isinstance(value, str)]
    names = [name for _, name in sorted(found, key=lambda each: (-each[0], each[1]))]
    if not within:
        names += [
            text for name, value in record.items() if isinstance(value, dict) for text in _texts(value, f"{name}.")
        ]
    return names[:10]
