"""Parquet: a document a row, its text in one column, its `url` and `title` in others.

A file without such a column is one rejection that names the columns it has; a row whose strings are not UTF-8, which no
reader checks, is one by itself.  Memory holds the rows of a batch, few of them where they may be long: a text that
stands in a dictionary is small in the file, however many rows have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.ingest.containers import Record, Text, Wanted, source_of, why
from tutti.ingest.rejections import Reason, Rejection

_ROWS, _BATCH_BYTES = 16, 128 << 20
_BUFFER = 1 << 20
_QUOTED = 60
OTHERS = ("url", "title")


def read_rows(path: Path, source: str, wanted: Wanted) -> Iterator[Record]:
    """The rows of a file, in its order; a place is the row's number from 1 on."""
    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:  # type: ignore[no-untyped-call]
            schema: pa.Schema = file.schema_arrow
            if not _is_text(schema, wanted.text_field):
                seen = ", ".join(f"{field.name!a} ({field.type})" for field in schema)[:300] or "none"
                detail = f"no column {wanted.text_field!r} of strings; there are: {seen} (input.text_field names it)"
                yield Rejection(source, Reason.NO_TEXT, detail)
                return
            names = [wanted.text_field, *(name for name in OTHERS if _is_text(schema, name))]
            rows = max(1, min(_ROWS, _BATCH_BYTES // max(_longest(file.metadata, names), 1)))
            for batch in file.iter_batches(rows, columns=names, use_threads=False):
                columns = [batch[name].cast(pa.large_string()) for name in names]
                for row in range(batch.num_rows):
                    number += 1
                    yield _record([column[row] for column in columns], names, f"{source}:{number}", wanted)
    except (OSError, ValueError, pa.ArrowException) as error:
        detail = f"behind row {number} the file cannot be read ({why(error)}): it is cut, damaged or no Parquet"
        yield Rejection(source, Reason.DAMAGED, detail)


def _is_text(schema: pa.Schema, name: str) -> bool:
    if schema.get_field_index(name) < 0:
        return False
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _longest(metadata: pq.FileMetaData, names: Sequence[str]) -> int:
    """Bytes that no text of these columns is longer than, as the file says: of all that a group of rows has in one."""
    groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    return max((each.total_uncompressed_size for each in columns if each.path_in_schema in names), default=0)


def _record(row: list[pa.Scalar], names: Sequence[str], place: str, wanted: Wanted) -> Record:
    """What a row is, whose first value is its text."""
    if not row[0].is_valid:
        return Rejection(place, Reason.NO_TEXT, f"the column {wanted.text_field!r} is null")
    if row[0].as_buffer().size > wanted.max_bytes:
        return Rejection(place, Reason.TOO_LARGE, f"a text of more than {wanted.max_bytes} bytes")
    values: dict[str, str | None] = {}
    for name, value in zip(names, row, strict=True):
        try:
            values[name] = value.as_py()
        except UnicodeDecodeError:
            begin = value.as_buffer()[:_QUOTED].to_pybytes().decode("utf-8", "backslashreplace")
            return Rejection(place, Reason.MALFORMED, f"the column {name!r} is not UTF-8; begins with {begin!r}")
    return Text(source_of(values.get("url"), place), values[names[0]] or "", values.get("title") or "")
