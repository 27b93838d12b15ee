"""The engine: rows that may be too many for one machine, in Daft; on Ray, wherever its nodes are.

Promises: it moves rows and calls steps, no more; which rows come together is decided by their keys alone. It reports to
nobody. Raises what a step raised, as if it had been called here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

# Before they are imported: nothing is told to those who make them.
os.environ |= {"DO_NOT_TRACK": "1", "RAY_USAGE_STATS_ENABLED": "0", "DAFT_PROGRESS_BAR": "0"}

import daft
import ray
from daft import col

from tutti.dedup.steps import Step
from tutti.platform import cluster


def join(address: str) -> int:
    """`cluster.join`, and Daft of this process runs there."""
    cores = cluster.join(address, "dedup.ray")
    daft.set_runner_ray(noop_if_initialized=True)
    return cores


@dataclass(frozen=True)
class Engine:
    """`buckets`: into how many parts rows are cut between steps, at least one a core; one must fit in its memory."""

    buckets: int

    def rows(self, table: pa.Table) -> daft.DataFrame:
        return daft.from_arrow(table)

    def together(self, kinds: Iterable[daft.DataFrame], by: str, step: Step, *, apart: bool = False) -> daft.DataFrame:
        """Call a step with all rows of a key, of every kind; columns that a kind lacks are null.

        A call has the rows of all keys of a bucket, unless keys are kept `apart`.
        """
        one, *others = [_alike(kind, step.takes) for kind in kinds]
        for other in others:
            one = one.concat(other)
        key = col(by) if apart else col(by).hash() % daft.lit(self.buckets)
        does = daft.func.batch(return_dtype=_type(step.gives), use_process=False)(_Call(step))
        parted = one.with_column("key", key)
        if daft.get_or_infer_runner_type() == "ray":
            # Without a number as many parts as came would be made, and more come out of a step than went in.
            parted = parted.repartition(self.buckets, "key")
        called = parted.groupby("key").map_groups(does(*map(col, step.takes.names)).alias("row"))
        return _done(called.select(col("row").unnest()))

    def where(self, rows: daft.DataFrame, column: str) -> daft.DataFrame:
        """The rows in which a column is not null."""
        return rows.where(col(column).not_null())

    def count(self, rows: daft.DataFrame) -> int:
        return rows.count_rows()

    def table(self, rows: daft.DataFrame, *columns: str) -> pa.Table:
        """All rows, here; with these columns, or with all."""
        return (rows.select(*columns) if columns else rows).to_arrow()


@dataclass(frozen=True)
class _Call:
    """A step on the columns of a group, as Daft hands them over and takes them back."""

    step: Step

    @property
    def __name__(self) -> str:
        return "step"

    def __call__(self, *columns: daft.Series) -> pa.Array:
        given = pa.table([column.to_arrow() for column in columns], names=self.step.takes.names)
        return _structs(self.step.does(given.cast(self.step.takes)).cast(self.step.gives))


def _structs(table: pa.Table) -> pa.Array:
    return pa.concat_arrays(table.to_struct_array().chunks) if table.num_rows else pa.array([], pa.struct(table.schema))


def _type(schema: pa.Schema) -> daft.DataType:
    return daft.DataType.from_arrow_type(pa.struct(schema))


def _alike(rows: daft.DataFrame, schema: pa.Schema) -> daft.DataFrame:
    def column(field: pa.Field) -> daft.Expression:
        found = col(field.name) if field.name in rows.column_names else daft.lit(None)
        return found.cast(daft.DataType.from_arrow_type(field.type)).alias(field.name)

    return rows.select(*map(column, schema))


def _done(rows: daft.DataFrame) -> daft.DataFrame:
    try:
        return rows.collect()
    except ray.exceptions.RayTaskError as error:
        raise cluster.cause(error) from None
