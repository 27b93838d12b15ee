"""Columns: those of Arrow tables as numbers, which steps compute with, and numbers as columns again. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]


def numbered(*columns: pa.ChunkedArray) -> tuple[pa.Array, ...]:
    """All values in their order, each once; then the places of each column's values among them, -1 for null."""
    names = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type).unique()
    names = names.drop_null().sort()
    return names, *(_places(column, names) for column in columns)


def _places(column: pa.ChunkedArray, names: pa.Array) -> Numbers:
    found = pc.index_in(column, value_set=names)  # type: ignore[attr-defined]
    return np.asarray(found.fill_null(-1)).astype(np.int64)


def as_numbers(column: pa.ChunkedArray, missing: int) -> npt.NDArray[Any]:
    """A column of numbers, `missing` for null."""
    return np.asarray(column.fill_null(missing))


def smallest(keys: Numbers, values: Numbers, count: int) -> Numbers:
    """The smallest value of each key 0 … count - 1; the largest int64 where there is none."""
    found = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(found, keys, values)
    return found


def in_pairs(first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """Rows of two numbers each, as `rows.in_order` takes them."""
    return np.stack([first.astype(np.uint64), second.astype(np.uint64)], axis=1)


def flags(true: npt.NDArray[np.bool_]) -> pa.Array:
    """True, or null: what an engine can choose by."""
    return pa.array(true, mask=~true)


def table(schema: pa.Schema, *columns: pa.Array | pa.ChunkedArray | npt.NDArray[np.generic] | None) -> pa.Table:
    """A table of columns in the order of the schema, cast to its types; None is a column of nulls."""
    count = next(len(column) for column in columns if column is not None)
    arrays = [
        pa.nulls(count, field.type)
        if column is None
        else (pa.array(column) if isinstance(column, np.ndarray) else column).cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)
