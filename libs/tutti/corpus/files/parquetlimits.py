"""Limits of Parquet files by their footers and the headers of their pages, before anything in them is unpacked."""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path
from typing import IO, BinaryIO

from tutti.corpus.files.budgets import Budget, Spent
from tutti.corpus.files.parquetpages import pages
from tutti.native.arrays import pq

_FOOTER_SHARE = 8
"""A footer may have this share of the limit of a record, and 1 MiB in any case: it takes up to 80 times its size."""
_LENGTH, _MAGIC = struct.Struct("<I4s"), b"PAR1"
_LISTED_VALUE = 8
"""Bytes of memory for a value of a list, if it has none in the file."""


class FooterTooLarge(Exception):
    """The descriptions of columns and groups take more than they may."""


def whole_footer(path: Path, max_bytes: int) -> BinaryIO:
    """A file whose footer is not too large, open for reading. Raises FooterTooLarge."""
    most = max(1 << 20, max_bytes // _FOOTER_SHARE)
    file = path.open("rb")
    with contextlib.ExitStack() as stack:
        stack.callback(file.close)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LENGTH.size))
        end = file.read()
        length, magic = _LENGTH.unpack(end) if len(end) == _LENGTH.size else (0, b"")
        if magic == _MAGIC and most < length < size:
            raise FooterTooLarge(
                f"its footer, which describes columns and groups of rows, has {length} bytes; at most {most} are read"
            )
        stack.pop_all()
    return file


def require_room(path: Path, footer: IO[bytes], metadata: pq.FileMetaData, most: int) -> None:
    """Raise Spent for a file that would take more than its budget, or has a page of more than `most` bytes, by the
    headers of its pages; ValueError where there is none. A row may have all values of a list, which need no bytes in
    the file if they are null or the same.
    """
    budget, schema = Budget(path), metadata.schema
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for at in range(group.num_columns):
            listed = schema.column(at).max_repetition_level > 0
            for page in pages(footer, group.column(at)):
                if page.size > most:
                    raise Spent(f"a page of {page.size} bytes")
                budget.take(max(page.size, _LISTED_VALUE * page.values) if listed else page.size)
