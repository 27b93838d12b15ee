"""Parquet: a document a row, its text in one column, its `url` and `title` in others.

A file without such a column is one rejection that names the columns it has; a row whose strings are not UTF-8, which no
reader checks, is one by itself.  Memory holds the rows of a batch, few of them where they may be long: a text that
stands in a dictionary is small in the file, however many rows have it.  A page that is too large is not unpacked: rows
in it, and those behind it in its group, which are not read without it, are rejections one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.corpus.files.budgets import Budget, Spent
from tutti.corpus.files.packed import why
from tutti.corpus.files.parquetlimits import FooterTooLarge, whole_footer
from tutti.corpus.files.parquetpages import Page, pages
from tutti.ingest.reading.containers import Record, RecordOptions, Text, source_of
from tutti.ingest.reading.rejections import Reason, Rejection, over_budget

_ROWS, _LEAST_BYTES, _MOST_NAME = 16, 16 << 20, 1 << 16
_BUFFER = 1 << 20
_QUOTED = 60
OTHERS = ("url", "title")


def read_rows(path: Path, source: str, wanted: RecordOptions) -> Iterator[Record]:
    """The rows of a file, in its order; a place is the row's number from 1 on."""
    number = 0
    try:
        budget = Budget(path)
        with (
            whole_footer(path, wanted.max_bytes) as headers,
            pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file,  # type: ignore[no-untyped-call]
        ):
            schema: pa.Schema = file.schema_arrow
            if not _is_text(schema, wanted.text_field):
                seen = ", ".join(f"{field.name!a} ({field.type})" for field in schema)[:300] or "none"
                detail = f"no column {wanted.text_field!r} of strings; there are: {seen} (input.text_field names it)"
                yield Rejection(source, Reason.NO_TEXT, detail)
                return
            names = [wanted.text_field, *(name for name in OTHERS if _is_text(schema, name))]
            for group in range(file.num_row_groups):
                found = _group(headers, file.metadata.row_group(group), names, 2 * max(_LEAST_BYTES, wanted.max_bytes))
                batches = file.iter_batches(found.batch, row_groups=[group], columns=names, use_threads=False)
                for cells in _rows(islice(batches, math.ceil(found.rows / found.batch)), names, budget):
                    number += 1
                    yield _record(cells, names, f"{source}:{number}", wanted)
                    del cells  # before the next batch is there
                if found.damage:
                    raise found.damage
                for _ in range(found.unread):
                    number += 1
                    detail = f"in or behind a page of {found.too_large} bytes, which is not unpacked"
                    yield Rejection(f"{source}:{number}", Reason.TOO_LARGE, detail)
    except Spent as spent:
        yield over_budget(source, f"row {number}", spent)
    except FooterTooLarge as error:
        yield Rejection(source, Reason.TOO_LARGE, str(error))
    except (OSError, ValueError, pa.ArrowException) as error:
        detail = f"behind row {number} the file cannot be read ({why(error)}): it is cut, damaged or no Parquet"
        yield Rejection(source, Reason.DAMAGED, detail)


def _rows(batches: Iterator[pa.RecordBatch], names: Sequence[str], budget: Budget) -> Iterator[list[pa.Scalar]]:
    """The cells of every row; no batch is held while the next one is read. Raises Spent."""
    while (batch := next(batches, None)) is not None:
        columns = [batch[name].cast(pa.large_string()) for name in names]
        del batch
        budget.take(sum(column.nbytes for column in columns))
        for row in range(len(columns[0])):
            yield [column[row] for column in columns]
        del columns


def _is_text(schema: pa.Schema, name: str) -> bool:
    if schema.get_field_index(name) < 0:
        return False
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


@dataclass(frozen=True, slots=True)
class _Group:
    """The readable part of a group of rows: the first `rows`, in batches that end with them.

    `unread`: those behind them, for a page of `too_large` bytes or for `damage`.
    """

    rows: int
    batch: int
    unread: int
    too_large: int
    damage: ValueError | None


def _group(file: IO[bytes], group: pq.RowGroupMetaData, names: Sequence[str], most: int) -> _Group:
    """Return the sizes of a row group from its page headers: no page is longer than `most`, no text than its page."""
    rows, row, too_large, damage = group.num_rows, 0, 0, None
    for column in (group.column(number) for number in range(group.num_columns)):
        if column.path_in_schema not in names:
            continue
        seen, longest = 0, 1
        try:
            for page in pages(file, column):
                if seen >= rows:
                    break
                if page.size > most:
                    rows, too_large, damage = seen, page.size, None
                    break
                longest, seen = max(longest, _share(page)), seen + page.values
            row += longest
            if row > most and not too_large:
                rows, too_large = 0, row
        except ValueError as error:
            if seen < rows:
                rows, too_large, damage = seen, 0, error
    batch = max(1, min(_ROWS, most // max(row, 1)))
    unread = group.num_rows - rows
    return _Group(rows, math.gcd(rows, batch) if unread and rows else batch, unread, too_large, damage)


def _share(page: Page) -> int:
    """The most bytes that a row of a batch takes of a page; each row may have all of a dictionary."""
    return 2 * page.size // min(page.values, _ROWS) if page.values > 1 else page.size


def _record(row: list[pa.Scalar], names: Sequence[str], place: str, wanted: RecordOptions) -> Record:
    """The record of a row, whose first value is its text."""
    if not row[0].is_valid:
        return Rejection(place, Reason.NO_TEXT, f"the column {wanted.text_field!r} is null")
    if row[0].as_buffer().size > wanted.max_bytes:
        return Rejection(place, Reason.TOO_LARGE, f"a text of more than {wanted.max_bytes} bytes")
    values: dict[str, str | None] = {}
    for name, value in zip(names, row, strict=True):
        try:
            values[name] = value.as_py() if name == wanted.text_field else _short(value)
        except UnicodeDecodeError:
            begin = value.as_buffer()[:_QUOTED].to_pybytes().decode("utf-8", "backslashreplace")
            return Rejection(place, Reason.MALFORMED, f"the column {name!r} is not UTF-8; begins with {begin!r}")
    return Text(source_of(values.get("url"), place), values[names[0]] or "", values.get("title") or "")


def _short(value: pa.Scalar) -> str | None:
    """A title or a URL; nothing of one that is so long that it is neither. Raises UnicodeDecodeError."""
    if not value.is_valid or value.as_buffer().size > _MOST_NAME:
        return None
    text: str = value.as_py()
    return text
