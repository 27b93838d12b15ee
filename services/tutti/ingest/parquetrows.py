"""Parquet: a document a row, its text in one column, its `url` and `title` in others.

A file without such a column is one rejection that names the columns it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tutti.ingest.containers import Record, Text, Wanted, source_of, why
from tutti.ingest.rejections import Reason, Rejection

_ROWS = 256
_BUFFER = 1 << 20
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
            for batch in file.iter_batches(_ROWS, columns=names, use_threads=False):
                columns = {name: batch[name].to_pylist() for name in names}
                for row in range(batch.num_rows):
                    number += 1
                    yield _record({name: values[row] for name, values in columns.items()}, f"{source}:{number}", wanted)
    except (OSError, ValueError, pa.ArrowException) as error:
        detail = f"behind row {number} the file cannot be read ({why(error)}): it is cut, damaged or no Parquet"
        yield Rejection(source, Reason.DAMAGED, detail)


def _is_text(schema: pa.Schema, name: str) -> bool:
    if schema.get_field_index(name) < 0:
        return False
    kind = schema.field(name).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _record(row: dict[str, str | None], place: str, wanted: Wanted) -> Record:
    text = row[wanted.text_field]
    if text is None:
        return Rejection(place, Reason.NO_TEXT, f"the column {wanted.text_field!r} is null")
    if len(text) > wanted.max_bytes or len(text.encode()) > wanted.max_bytes:
        return Rejection(place, Reason.TOO_LARGE, f"a text of more than {wanted.max_bytes} bytes")
    return Text(source_of(row.get("url"), place), text, row.get("title") or "")
