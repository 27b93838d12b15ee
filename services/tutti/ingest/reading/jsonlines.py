"""JSON lines: an object a line, its text in one field, its `url` and `title` in others.

A line that is no object, or has no text, is a rejection with its number and how it begins; so is one of very many
values, which would take 27 times the memory that the line takes.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.ingest.reading.budgets import Spent, over_budget
from tutti.ingest.reading.containers import Record, RecordOptions, Text, source_of, why
from tutti.ingest.reading.packed import damage, unpacked
from tutti.ingest.reading.rejections import Reason, Rejection

MOST_VALUES = 1_000_000
"""Maximum number of lists, objects, and commas in them, in a line."""
QUOTED = 60
_PIECE = 1 << 20
MARK = b"\xef\xbb\xbf"
_VALUE = "[{,"
_STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
DECODER = json.JSONDecoder(parse_int=float)  # integers may be of any length


def read_json_lines(path: Path, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The records of a file, in its order; empty lines are none."""
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(lines(file, wanted.max_bytes), 1):
                if line is None:
                    detail = f"a line of more than {wanted.max_bytes} bytes"
                    yield Rejection(f"{source}:{number}", Reason.TOO_LARGE, detail)
                elif stripped := line.removeprefix(MARK if number == 1 else b"").strip():
                    yield _record(stripped, f"{source}:{number}", wanted)
    except Spent as spent:
        yield over_budget(source, f"line {number}", spent)
    except damage() as error:
        detail = f"after line {number} the file cannot be read ({why(error)}): it is cut or damaged"
        yield Rejection(source, Reason.DAMAGED, detail)


def opened(path: Path) -> io.BufferedIOBase:
    """A file of lines, unpacked where its name says that it is packed."""
    if path.name.lower().endswith((".gz", ".zst")):
        return unpacked(path)
    return io.BufferedReader(io.FileIO(path), _PIECE)


def lines(file: io.BufferedIOBase, limit: int) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is longer than `limit`, of which no more than that is held."""
    while line := file.readline(limit + 1):
        if len(line) <= limit or line.endswith(b"\n"):
            yield line
            continue
        while (rest := file.readline(_PIECE)) and not rest.endswith(b"\n"):
            pass
        yield None


def _record(line: bytes, place: str, wanted: RecordOptions) -> Record:
    try:
        read = line.decode(json.detect_encoding(line), "surrogatepass")
        if has_many_values(read):
            detail = f"more than {MOST_VALUES:,} values in a line: leave out fields that are no text"
            return Rejection(place, Reason.TOO_LARGE, detail)
        found = DECODER.decode(read)
    except (ValueError, RecursionError) as error:
        begin = line[:QUOTED].decode("utf-8", "backslashreplace")
        what = "nested too deep" if isinstance(error, RecursionError) else "not JSON in UTF-8"
        return Rejection(place, Reason.MALFORMED, f"{what}; begins with {begin!r}")
    if not isinstance(found, dict):
        return Rejection(place, Reason.MALFORMED, f"expected an object, seen {type(found).__name__}")
    text, title = found.get(wanted.text_field), found.get("title")
    if not isinstance(text, str):
        keys = ", ".join(map(ascii, sorted(found)[:10]))[:200]
        seen = "is no string" if wanted.text_field in found else f"is missing; there are: {keys or 'none'}"
        return Rejection(place, Reason.NO_TEXT, f"the field {wanted.text_field!r} {seen} (input.text_field names it)")
    return Text(source_of(found.get("url"), place), text, title if isinstance(title, str) else "")


def has_many_values(line: str) -> bool:
    """True if it has too many values to decode; strings that only look like values do not count."""
    if len(line) <= MOST_VALUES or _values(line, 0, len(line)) <= MOST_VALUES:
        return False
    number = at = 0
    for string in _STRING.finditer(line):
        number += _values(line, at, string.start())
        if number > MOST_VALUES:
            return True
        at = string.end()
    return number + _values(line, at, len(line)) > MOST_VALUES


def _values(line: str, begin: int, end: int) -> int:
    return sum(line.count(each, begin, end) for each in _VALUE)
