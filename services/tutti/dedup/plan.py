"""The plan: exact and near duplicates over any number of shards, as steps between exchanges of an engine.

Promises: it finds what `clusters.find` finds, for any engine, number of nodes and cut of the rows. What travels is
names; a text is read where its shard lies, twice, and travels once if it has a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tutti.dedup import steps
from tutti.dedup.exact import ConflictingDocument
from tutti.dedup.reading import SHARDS, Reading
from tutti.dedup.steps import Step

if TYPE_CHECKING:
    from daft import DataFrame

    from tutti.dedup.engine import Engine

CHOOSE = Step(steps.chosen, steps.DOCUMENTS, steps.DOCUMENTS)
EQUAL = Step(steps.equal, steps.DOCUMENTS, steps.STANDING)
MEET = Step(steps.met, steps.BANDED, steps.PAIRED)
SMALL = Step(steps.small_star, steps.LINKED, steps.LINKED)
LARGE = Step(steps.large_star, steps.LINKED, steps.LINKED)
LABEL = Step(steps.labelled, steps.PAIRED, steps.LABELLED)
GROUP = Step(steps.grouped, steps.LABELLED, steps.GROUPED)
CLOSEST = Step(steps.closest, steps.SIMILAR, steps.NEAR)


@dataclass(frozen=True)
class Duplicates:
    """`exact`: documents and the smallest with the same text, `kept`; `near` (NEAR): of those that are not exact."""

    documents: int
    exact: pa.Table
    near: pa.Table


def duplicates(engine: Engine, reading: Reading, shards: pa.Table, rejected: pa.Table, threshold: float) -> Duplicates:
    """Of `shards` (SHARDS) but the documents of `rejected` (`doc`). `threshold` as `clusters.find` has it.

    Raises ConflictingDocument, and what reading raises.
    """
    places = engine.rows(shards)
    names = Step(reading.names, SHARDS, steps.DOCUMENTS)
    documents = engine.together(
        [engine.together([places], "shard", names, apart=True), engine.rows(rejected)], "doc", CHOOSE
    )
    if engine.count(twice := engine.where(documents, "conflict")):
        name = engine.table(twice)["doc"][0].as_py().hex()
        raise ConflictingDocument(f"document {name} has two texts; read its shards again")
    standing = engine.together([documents], "text", EQUAL)
    near = _near(engine, reading, places, standing, threshold) if threshold else steps.NEAR.empty_table()
    return Duplicates(engine.count(documents), engine.table(engine.where(standing, "kept")), near)


def _near(engine: Engine, reading: Reading, places: DataFrame, standing: DataFrame, threshold: float) -> pa.Table:
    band = Step(reading.banded, _both(SHARDS, steps.STANDING), steps.BANDED)
    tell = Step(reading.texts, _both(SHARDS, steps.GROUPED), steps.TOLD)
    verify = Step(partial(steps.similar, threshold=threshold), _both(steps.GROUPED, steps.TOLD), steps.SIMILAR)

    banded = engine.together([places, standing], "shard", band, apart=True)
    pairs = engine.together([banded], "band", MEET)
    labelled = engine.together([pairs, _components(engine, pairs)], "node", LABEL)
    grouped = engine.together([labelled], "component", GROUP)
    told = engine.together([places, engine.where(grouped, "shard")], "shard", tell, apart=True)
    similar = engine.together([engine.where(grouped, "other"), told], "group", verify, apart=True)
    return engine.table(engine.together([similar, _components(engine, similar)], "node", CLOSEST))


def _components(engine: Engine, links: DataFrame) -> DataFrame:
    """LINKED: each document with the smallest of its component, both ways.

    The rounds are few: of n documents in a component, at most about log² n (Kiveris et al., theorem 1).
    """
    found = engine.together([links], "node", SMALL)
    while True:
        found = engine.together([engine.together([found], "node", LARGE)], "node", SMALL)
        if not engine.count(engine.where(found, "changed")):
            return found


def _both(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.schema([*one, *(field for field in other if field.name not in one.names)])
