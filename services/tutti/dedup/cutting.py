"""Cutting: the units of documents in shards, and what these lose, found where the nodes of a cluster are.

Promises: what `lines.find` cuts (`onray.py` writes it), of documents that come with their shards, each with one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tutti.corpus.counts.cleaning import judged
from tutti.dedup import units
from tutti.dedup.columns import Numbers, as_numbers, flags, table
from tutti.dedup.lines import LineLimits, example, least_left, numbers, units_of
from tutti.dedup.losses import Cut, Loss, losses
from tutti.dedup.reading import Reading, Unreadable, in_one
from tutti.dedup.tallies import MET, TALLIED, tallied
from tutti.dedup.units import NAME_BYTES, Units

_NUMBER = pa.int64()
LOST = pa.schema(
    [
        ("doc", pa.binary()),
        *((name, _NUMBER) for name in ("begin", "end", "left")),
        ("bare", pa.bool_()),
        *((name, _NUMBER) for name in ("lost_documents", "lost_units", "lost_lines", "lost_bytes")),
        *((name, _NUMBER) for name in ("number", "documents")),
        ("text", pa.string()),
    ]
)
"""Rows of four kinds: `begin` and `end` of what a document loses; how much is `left` of one that goes, and whether it
is `bare`; how much a shard lost; of an example the text, where it stands first and in how many documents."""


def names_units() -> bool:
    """True if names of units computed here equal those of the kernel."""
    return units.native().library is not None


@dataclass(frozen=True)
class Cutting:
    """`kernel`: what `names_units` says where the search was begun; a node where it says another thing is refused."""

    reading: Reading
    wanted: LineLimits | None
    clean: bool
    kernel: bool

    def units(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS and STAYING → TALLIED."""
        assert self.wanted is not None
        self._require_names()
        stay = rows["doc"].drop_null()
        if not len(stay):
            return TALLIED.empty_table()
        found = []
        with self.reading.shard(rows) as shard:
            for names, texts in shard.texts(stay):
                made = units_of(texts, self.wanted)
                counted = np.flatnonzero(made.counted)
                documents = names.take(pa.array(_texts(made)[counted]))
                found.append(table(MET, _names(made).take(pa.array(counted)), documents, numbers(made)[counted]))
        return tallied(in_one(found, MET), shard.number, keep=self.wanted.keep)

    def losses(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS, STAYING and REPEATED → LOST."""
        self._require_names()
        told = rows["documents"].is_valid()
        unit = rows["unit"].is_valid()
        document = pc.and_not(rows["doc"].is_valid(), pc.or_(told, unit))  # type: ignore[attr-defined]
        stay, hot = rows["doc"].filter(document), _Hot(rows.filter(unit))
        if not len(stay) or not (self.clean or len(hot.units)):
            return LOST.empty_table()
        examples = rows.filter(told)
        every, found = Loss(), []
        with self.reading.shard(rows) as shard:
            for names, texts in shard.texts(stay):
                made = units_of(texts, self.wanted)
                lines = judged(texts) if self.clean else None
                cut = losses(texts, np.ones(len(texts), np.bool_), made, hot.among(names, made), lines).cut(
                    least_left(self.wanted)
                )
                every += cut.lost
                found += [_ranges(names, cut), _gone(names, cut), _examples(names, texts, made, examples)]
        return in_one([*found, _sums(every)], LOST)

    def _require_names(self) -> None:
        if self.wanted is not None and self.kernel != names_units():
            raise Unreadable(
                f"a node of the cluster names lines with{'out' if self.kernel else ''} a compiler, and what runs dedup "
                "does not: have a C compiler on all of them, or on none"
            )


class _Hot:
    """Units that are repeated: REPEATED with their names, of a shard."""

    def __init__(self, rows: pa.Table) -> None:
        stays = rows["doc"].is_valid()
        self.units = rows.filter(pc.invert(stays))["unit"].combine_chunks()  # type: ignore[attr-defined]
        held = rows.filter(stays)
        self._documents = held["doc"].unique()
        self._stay = self._pairs(_at(held["unit"], self.units), _at(held["doc"], self._documents))

    def among(self, names: pa.Array, made: Units) -> npt.NDArray[np.bool_]:
        """The units among those of documents that are to be cut there."""
        unit = _at(_names(made), self.units)
        document = _at(names, self._documents)[_texts(made)]
        stays = (document >= 0) & np.isin(self._pairs(unit, document), self._stay)
        return made.counted & (unit >= 0) & ~stays

    def _pairs(self, unit: Numbers, document: Numbers) -> Numbers:
        return unit * max(len(self._documents), 1) + document


def _at(names: pa.Array | pa.ChunkedArray, known: pa.Array) -> Numbers:
    """The place of each among those that are known, -1 where it is not."""
    return as_numbers(pc.index_in(names, value_set=known), -1).astype(np.int64)  # type: ignore[attr-defined]


def _texts(made: Units) -> Numbers:
    """The text of each unit."""
    return np.repeat(np.arange(len(made.bounds) - 1), np.diff(made.bounds))


def _names(made: Units) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(made.names))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(NAME_BYTES), len(made.names), [None, data])
    return fixed.cast(pa.binary())


def _ranges(names: pa.Array, cut: Cut) -> pa.Table:
    begin, end = cut.ranges.T
    return _lost(len(cut.texts), doc=names.take(pa.array(cut.texts)), begin=pa.array(begin), end=pa.array(end))


def _gone(names: pa.Array, cut: Cut) -> pa.Table:
    gone = np.concatenate([cut.short, cut.bare])
    bare = flags(np.arange(len(gone)) >= len(cut.short))
    return _lost(len(gone), doc=names.take(pa.array(gone)), left=pa.array(cut.left[gone]), bare=bare)


def _sums(lost: Loss) -> pa.Table:
    return _lost(1, **{f"lost_{name}": pa.array([size]) for name, size in asdict(lost).items()})


def _examples(names: pa.Array, texts: pa.Array, made: Units, wanted: pa.Table) -> pa.Table:
    """Those of which the document is here, REPEATED, with their texts."""
    documents = _at(wanted["doc"], names)
    here = np.flatnonzero(documents >= 0)
    at = made.bounds[documents[here]] + as_numbers(wanted["number"], 0)[here]
    told = wanted.take(pa.array(here))
    columns = {name: told[name] for name in ("doc", "number", "documents")}
    return _lost(len(here), **columns, text=pa.array([example(texts, made, each) for each in at.tolist()], pa.string()))


def _lost(count: int, **columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    """So many rows of LOST, of which other columns are null."""
    return table(LOST, *(columns.get(field.name, pa.nulls(count, field.type)) for field in LOST))
