"""The values of a file of JSON lines, of one list in JSON, or of rows of Parquet, packed or not.

Promises: whatever a file promises, memory holds one value within its limit, or one list; what is larger, or is no
JSON, becomes an Unfit in its place, and the others are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.corpus.files.budgets import Spent
from tutti.corpus.files.jsonvalues import (
    DECODER,
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


@dataclass(frozen=True)
class Limits:
    """Bytes of a `record`, of a `whole` list in JSON, and of a `page` of Parquet, which is unpacked whole."""

    record: int
    whole: int = 50 << 20
    page: int = 32 << 20


@dataclass(frozen=True)
class Value:
    """A value of JSON, or an Unfit, with its place: the `number` of a `unit` from 1 on, 0 for the rest of the file."""

    unit: str
    number: int
    value: object


def values(path: Path, limits: Limits, *, decoder: json.JSONDecoder = DECODER) -> Iterator[Value]:
    """The values of a file, in its order: of a `.parquet`, of a `.json`, and lines of any other."""
    name = path.name.lower()
    if name.endswith(".parquet"):
        return _of_rows(path, limits)
    return _of_json(path, limits, decoder, whole=name.removesuffix(".gz").removesuffix(".zst").endswith(".json"))


def _of_json(path: Path, limits: Limits, decoder: json.JSONDecoder, *, whole: bool) -> Iterator[Value]:
    """The values of JSON lines, or of one list where the file is a `whole` and its first line is no object."""
    number = 0
    try:
        with opened(path) as stream:
            of_lines, texts = True, lines(stream, limits.record)
            if whole:
                of_lines, texts = lines_or_whole(stream, limits.record, limits.whole)
            for number, text in enumerate(texts, 1):
                if text is None:
                    most = f"a line of more than {limits.record:,} bytes" if of_lines else too_long_list(limits.whole)
                    yield Value("line", number if of_lines else 0, Unfit(Reason.TOO_LARGE, most))
                elif stripped := text.removeprefix(MARK if number == 1 else b"").strip():
                    value = decoded(stripped, decoder)
                    yield from [Value("line", number, value)] if of_lines else _items(value)
    except Spent as spent:
        yield _end(Reason.TOO_LARGE, f"{spent}; after line {number} nothing was read")
    except damage() as error:
        yield _end(Reason.DAMAGED, f"after line {number} the file cannot be read ({why(error)})")


def _items(value: object) -> Iterator[Value]:
    for number, each in enumerate(value if isinstance(value, list) else [value], 1):
        yield Value("record", number, each)


def _of_rows(path: Path, limits: Limits) -> Iterator[Value]:
    """The rows of Parquet as objects."""
    # Slow to import, and needed by few.
    from tutti.corpus import parquetobjects
    from tutti.corpus.files.parquetlimits import FooterTooLarge, require_room, whole_footer

    number = 0
    unreadable: tuple[type[Exception], ...] = (*damage(), ValueError)
    try:
        with whole_footer(path, limits.record) as footer, parquetobjects.opened(path) as rows:
            require_room(path, footer, rows.metadata, limits.page)
            for number, row in enumerate(parquetobjects.objects(rows, limits.record), 1):
                yield Value("row", number, row)
    except (Spent, FooterTooLarge) as error:
        yield _end(Reason.TOO_LARGE, f"{error}; after row {number} nothing was read")
    except unreadable as error:
        yield _end(Reason.DAMAGED, f"after row {number} the file cannot be read ({why(error)})")


def _end(reason: Reason, detail: str) -> Value:
    return Value("file", 0, Unfit(reason, detail))


def decoded(data: bytes, decoder: json.JSONDecoder = DECODER) -> object:
    """The value of JSON text; an Unfit for what cannot be read."""
    try:
        return decode(data, decoder)
    except ManyValues:
        detail = f"more than {MOST_VALUES:,} values; put each record into a line of its own (.jsonl)"
        return Unfit(Reason.TOO_LARGE, detail)
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        begin = data[:QUOTED].decode("utf-8", "backslashreplace")
        return Unfit(Reason.NOT_JSON, f"{what}; begins with {begin!a}")
