"""JSON in files: lines, or one list, with limits of bytes and values; packed with `.gz` or `.zst`, or not.

Promises: of a line that is too long no more than its limit is held; a text of very many values, which would take 27
times the memory of the text, is not decoded.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tutti.corpus.files.packed import unpacked

MOST_VALUES = 1_000_000
"""Maximum number of lists, objects, and commas in them, in a line."""
QUOTED = 60
_PIECE = 1 << 20
MARK = b"\xef\xbb\xbf"
_VALUE = "[{,"
_STRING = re.compile(r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
DECODER = json.JSONDecoder(parse_int=float)  # integers may be of any length


def too_long_list(most: int) -> str:
    """The reason why a list in JSON is not read."""
    return f"a list of more than {most:,} bytes in JSON; put each record into a line of its own (.jsonl)"


def lines_or_whole(file: io.BufferedIOBase, limit: int, most: int) -> tuple[bool, Iterator[bytes | None]]:
    """True and the lines of a file whose first one is an object; else False and the whole of at most `most` bytes.

    A line of more than `limit` bytes, or a longer whole, is None.
    """
    first, empty = file.readline(most + 1).removeprefix(MARK), 0
    while first and not first.strip():
        first, empty = file.readline(most + 1), empty + 1
    if _is_object(first):
        head = [b""] * empty + [first if len(first) <= limit + 1 else None]
        return True, itertools.chain(head, lines(file, limit))
    whole = first + file.read(max(0, most + 1 - len(first)))
    return False, iter([whole if len(whole) <= most else None])


class ManyValues(ValueError):
    """A text has too many values to decode."""


def decode(data: bytes, decoder: json.JSONDecoder = DECODER) -> object:
    """The value of JSON text in any of its encodings. Raises ManyValues, ValueError, RecursionError."""
    text = data.decode(json.detect_encoding(data), "surrogatepass")
    if has_many_values(text):
        raise ManyValues
    found: object = decoder.decode(text)
    return found


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(decode(line), dict)
    except (ValueError, RecursionError):
        return False


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
