"""Tallies: how many documents hold a unit (`units.py`), of a shard and then of all, as steps of a cluster. Pure.

Promises: a unit that stands in many documents of a shard is a row or few, so that what everybody has is no more than a
row a shard. A unit is named by the 16 bytes of its name.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tutti.dedup.columns import Numbers, as_numbers, in_pairs, numbered, table
from tutti.dedup.lines import EXAMPLES
from tutti.dedup.repeats import LOWER, SHIFT, Groups
from tutti.dedup.rows import in_order

_BINARY, _SHARD = pa.binary(), pa.int32()
MET = pa.schema([("unit", _BINARY), ("doc", _BINARY), ("number", pa.uint32())])
"""A unit of a document, and its number there."""
TALLIED = pa.schema([*MET, ("shard", _SHARD), ("documents", pa.uint32())])
REPEATED = pa.schema(
    [("unit", _BINARY), ("shard", _SHARD), ("doc", _BINARY), ("number", pa.int64()), ("documents", pa.int64())]
)


def tallied(rows: pa.Table, shard: int, *, keep: int) -> pa.Table:
    """MET of a shard → TALLIED: of each unit the first `keep` documents, or one; the first says how many there are."""
    if not rows.num_rows:
        return TALLIED.empty_table()
    names, doc = numbered(rows["doc"])
    units, unit = numbered(rows["unit"])
    ordered = in_order(in_pairs(unit, doc.astype(np.uint64) << SHIFT | as_numbers(rows["number"], 0).astype(np.uint64)))
    groups = Groups(ordered)
    chosen = groups.first & (groups.rank < max(keep, 1))
    unit, place = ordered[chosen].T
    documents = np.where(groups.rank == 0, groups.documents[groups.of], 0)[chosen]
    first = names.take(pa.array(place >> SHIFT))
    return table(TALLIED, units.take(pa.array(unit)), first, place & LOWER, np.full(len(unit), shard), documents)


def repeated(rows: pa.Table, *, most: int, keep: int) -> pa.Table:
    """By unit, TALLIED → REPEATED, of units that more than `most` documents hold.

    A row for each shard of such a unit; one for each of the first `keep` documents, with `doc`, which do not lose it.
    Without `unit`, of those that came the EXAMPLES in most `documents`: where it stands first.
    """
    units, unit = numbered(rows["unit"])
    names, doc = numbered(rows["doc"])
    counts = np.zeros(len(units), np.int64)
    np.add.at(counts, unit, as_numbers(rows["documents"], 0))
    order = np.lexsort((doc, unit))
    order = order[counts[unit[order]] > most]
    unit, doc = unit[order], doc[order]
    shard, number = (as_numbers(rows[name], 0)[order] for name in ("shard", "number"))
    begins = np.flatnonzero(np.diff(unit, prepend=-1))
    rank = np.arange(len(unit)) - np.repeat(begins, np.diff(begins, append=len(unit)))
    lying = in_order(in_pairs(unit, shard)).astype(np.int64)
    stays = np.flatnonzero(rank < keep)
    best = begins[np.lexsort((number[begins], doc[begins], -counts[unit[begins]]))][:EXAMPLES]

    def documents(places: Numbers) -> pa.Array:
        return names.take(pa.array(doc[places]))

    return pa.concat_tables(
        [
            table(REPEATED, units.take(pa.array(lying[:, 0])), lying[:, 1], None, None, None),
            table(REPEATED, units.take(pa.array(unit[stays])), shard[stays], documents(stays), None, None),
            table(REPEATED, None, shard[best], documents(best), number[best], counts[unit[best]]),
        ]
    )
