"""The pages of a Parquet column: how large each is once unpacked, by its header, before it is unpacked.

A page is unpacked whole, and one of 700 MB is 22 kB in a file. Headers are read as pages lie behind each other; none of
what is between them is.  (Apache Parquet, parquet.thrift, in Thrift's compact protocol.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from tutti.native.arrays import pq

_UNPACKED, _PACKED, _DATA, _DATA_V2 = 2, 3, 5, 8
"""Fields of a header; of the last two, the first field is how many values a page has."""
_VALUES = 1
_MOST_LEVELS = 8
_Fields = dict[int, "int | _Fields"]


@dataclass(frozen=True, slots=True)
class Page:
    """`size`: bytes once it is unpacked; `values`: how many, none in a dictionary."""

    size: int
    values: int


def pages(file: IO[bytes], column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a column of a group of rows, in their order. Raises ValueError where there is none."""
    place = column.data_page_offset
    if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < place:
        place = column.dictionary_page_offset
    values = 0
    while values < column.num_values:
        file.seek(place)
        header = _struct(file)
        size, packed = header.get(_UNPACKED), header.get(_PACKED)
        data = header.get(_DATA, header.get(_DATA_V2, {}))
        count = data.get(_VALUES, 0) if isinstance(data, dict) else None
        if not (isinstance(size, int) and isinstance(packed, int) and isinstance(count, int)):
            raise ValueError("a page has no size")
        if min(size, packed, count) < 0:
            raise ValueError("a page is smaller than nothing")
        yield Page(size, count)
        values += count
        place = file.tell() + packed


def _struct(file: IO[bytes], level: int = 0) -> _Fields:
    """The numbers and structures of a structure by their fields."""
    if level > _MOST_LEVELS:
        raise ValueError("the header of a page is too deep")
    fields: _Fields = {}
    number = 0
    while head := _byte(file):
        number = number + (head >> 4) if head >> 4 else _signed(file)
        match head & 15:
            case 1 | 2:  # true and false
                pass
            case 3:  # a byte
                _byte(file)
            case 4 | 5 | 6:  # whole numbers
                fields[number] = _signed(file)
            case 7:  # a number of eight bytes
                file.seek(8, 1)
            case 8:  # bytes
                file.seek(_whole(file), 1)
            case 12:
                fields[number] = _struct(file, level + 1)
            case other:
                raise ValueError(f"the header of a page has a field of type {other}")
    return fields


def _byte(file: IO[bytes]) -> int:
    read = file.read(1)
    if not read:
        raise ValueError("the file ends in the header of a page")
    return read[0]


def _whole(file: IO[bytes]) -> int:
    """A number, seven bits a byte."""
    number = 0
    for shift in range(0, 70, 7):
        byte = _byte(file)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
    raise ValueError("a number in the header of a page has no end")


def _signed(file: IO[bytes]) -> int:
    number = _whole(file)
    return number >> 1 ^ -(number & 1)
