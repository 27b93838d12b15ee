"""The plan: what is left out of any number of shards, and cut, as steps between exchanges of an engine.

Promises: it finds what `clusters.find` and `lines.find` find, for any engine, number of nodes and cut of the rows. What
travels is names; a text is read where its shard lies, twice for each search that needs it and once for evaluation
texts, and travels once if it has a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tutti.dedup import steps
from tutti.dedup.cutting import LOST, Cutting
from tutti.dedup.evaluating import HELD, Evaluating
from tutti.dedup.exact import ConflictingDocument
from tutti.dedup.reading import SHARDS, Reading
from tutti.dedup.steps import Step, both
from tutti.dedup.tallies import REPEATED, TALLIED, repeated

if TYPE_CHECKING:
    from daft import DataFrame

    from tutti.dedup.engine import Engine

CHOOSE = Step(steps.chosen, steps.READ, steps.DOCUMENTS)
EQUAL = Step(steps.equal, steps.DOCUMENTS, steps.STANDING)
MEET = Step(steps.met, steps.BANDED, steps.PAIRED)
SMALL = Step(steps.small_star, steps.LINKED, steps.LINKED)
LARGE = Step(steps.large_star, steps.LINKED, steps.LINKED)
LABEL = Step(steps.labelled, steps.PAIRED, steps.LABELLED)
GROUP = Step(steps.grouped, steps.LABELLED, steps.GROUPED)
CLOSEST = Step(steps.closest, steps.SIMILAR, steps.NEAR)
STAY = Step(steps.staying, both(steps.STANDING, steps.NEAR), steps.STAYING)
REJECTED = pa.schema([steps.READ.field("doc"), steps.READ.field("of")])
"""A document, and the dataset that is to be as if it had not got it."""


@dataclass(frozen=True)
class Duplicates:
    """The duplicates among so many `documents`: `standing` (STANDING), with other datasets; `near` (NEAR)."""

    engine: Engine
    documents: int
    standing: DataFrame
    near: DataFrame

    def exact(self) -> pa.Table:
        """Our own documents and the smallest with the same text, `kept`."""
        return self.engine.table(self.engine.where(self.engine.where(self.standing, "own"), "kept"))

    def staying(self) -> DataFrame:
        """STAYING."""
        return self.engine.together([self.standing, self.near], "doc", STAY)


def duplicates(engine: Engine, reading: Reading, shards: pa.Table, rejected: pa.Table, threshold: float) -> Duplicates:
    """The duplicates of `shards` (SHARDS) without REJECTED ones. `threshold` as in `clusters.find`.

    Raises ConflictingDocument, and what reading raises.
    """
    places = engine.rows(shards)
    names = Step(reading.names, SHARDS, steps.READ)
    documents = engine.together(
        [engine.together([places], "shard", names, apart=True), engine.rows(rejected)], "doc", CHOOSE
    )
    if engine.count(twice := engine.where(documents, "conflict")):
        name = engine.table(twice)["doc"][0].as_py()[1:].hex()
        raise ConflictingDocument(f"document {name} has two texts; read its shards again")
    standing = engine.together([documents], "text", EQUAL)
    near = _near(engine, reading, places, standing, threshold) if threshold else engine.rows(steps.NEAR.empty_table())
    return Duplicates(engine, engine.count(engine.where(documents, "own")), standing, near)


def _near(engine: Engine, reading: Reading, places: DataFrame, standing: DataFrame, threshold: float) -> DataFrame:
    band = Step(reading.banded, both(SHARDS, steps.STANDING), steps.BANDED)
    tell = Step(reading.texts, both(SHARDS, steps.GROUPED), steps.TOLD)
    verify = Step(partial(steps.similar, threshold=threshold), both(steps.GROUPED, steps.TOLD), steps.SIMILAR)

    banded = engine.together([places, standing], "shard", band, apart=True)
    pairs = engine.together([banded], "band", MEET)
    labelled = engine.together([pairs, _components(engine, pairs)], "node", LABEL)
    grouped = engine.together([labelled], "component", GROUP)
    told = engine.together([places, engine.where(grouped, "shard")], "shard", tell, apart=True)
    similar = engine.together([engine.where(grouped, "other"), told], "group", verify, apart=True)
    return engine.together([similar, _components(engine, similar)], "node", CLOSEST)


def _components(engine: Engine, links: DataFrame) -> DataFrame:
    """LINKED: each document with the smallest of its component, both ways.

    The rounds are few: of n documents in a component, at most about log² n (Kiveris et al., theorem 1).
    """
    found = engine.together([links], "node", SMALL)
    while True:
        found = engine.together([engine.together([found], "node", LARGE)], "node", SMALL)
        if not engine.count(engine.where(found, "changed")):
            return found


def contaminated(engine: Engine, evaluating: Evaluating, shards: pa.Table) -> pa.Table:
    """HELD, of all documents of `shards` (SHARDS). Raises TooManyTexts, and what reading raises."""
    held = Step(evaluating.held, SHARDS, HELD)
    return engine.table(engine.together([engine.rows(shards)], "shard", held, apart=True))


@dataclass(frozen=True)
class Losses:
    """The rows of LOST by their kinds, with the columns that these have."""

    ranges: pa.Table
    gone: pa.Table
    sums: pa.Table
    examples: pa.Table


def losses(engine: Engine, cutting: Cutting, shards: pa.Table, stay: DataFrame) -> Losses:
    """The cuts of kept documents (STAYING) of `shards` (SHARDS). Raises the errors of reading."""
    kinds = [engine.rows(shards), stay]
    if (wanted := cutting.wanted) is not None:
        tally = Step(cutting.units, both(SHARDS, steps.STAYING), TALLIED)
        repeat = Step(partial(repeated, most=wanted.most, keep=wanted.keep), TALLIED, REPEATED)
        tallied = engine.together(kinds, "shard", tally, apart=True)
        kinds.append(engine.together([tallied], "unit", repeat))
    lose = Step(cutting.losses, both(both(SHARDS, steps.STAYING), REPEATED), LOST)
    found = engine.together(kinds, "shard", lose, apart=True)

    def kind(*columns: str) -> pa.Table:
        return engine.table(engine.where(found, columns[0]), *columns)

    return Losses(
        ranges=kind("begin", "end", "doc"),
        gone=kind("left", "bare", "doc"),
        sums=kind("lost_documents", "lost_units", "lost_lines", "lost_bytes"),
        examples=kind("text", "doc", "number", "documents"),
    )
