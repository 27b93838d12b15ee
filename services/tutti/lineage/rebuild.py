"""A rebuild of the graph: every row is doubted until its owner or its manifest states it again.

Promises: no answer contains less while it runs; it continues after a crash, because its state is in rows; rows that
nothing states are removed at its end, in one transaction; rows of a manifest that cannot be read are kept.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import (
    Column,
    ColumnElement,
    MetaData,
    String,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    select,
    update,
)

from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit
from tutti.lineage.graph import KINDS, Testimony, Vertex
from tutti.lineage.tables import CHUNK, Noted, Reading, Tables
from tutti.records.manifest import Kind

SHARDS = "document-shards/"
UNREADABLE = (Reading.MISSING, Reading.DAMAGED)


class Part(StrEnum):
    """The table of a doubted row; an edge is named by its child and its parent."""

    VERTEX = "vertex"
    EDGE = "edge"
    MANIFEST = "manifest"


@dataclass(frozen=True)
class Extent:
    """The size of the graph, and what a rebuild still waits for."""

    vertices: int
    edges: int
    manifests: int
    unread: int
    unreadable: int
    doubted: int
    unlisted: tuple[str, ...]


class Rebuild:
    def __init__(self, metadata: MetaData, tables: Tables) -> None:
        self._graph = tables
        self._doubted = declare(
            "lineage_doubted",
            metadata,
            Column("part", String(10), primary_key=True),
            Column("name", String(400), primary_key=True),
            Column("other", String(400), primary_key=True),
        )
        self._unlisted = declare(
            "lineage_unlisted",
            metadata,
            Column("plural", String(40), primary_key=True),
            Column("rebuild", String(40), nullable=False),
        )
        self.tables = (self._doubted, self._unlisted)

    def begin(self, unit: Unit) -> None:
        """Doubt every row, and list every kind again; a rebuild that is under way starts over."""
        rebuild = unit.new_id()
        for table in self.tables:
            unit.tx.execute(delete(table))
        for part, _, name, other in self._parts():
            rows = select(literal(part.value), name, other)
            unit.tx.execute(insert(self._doubted).from_select(["part", "name", "other"], rows))
        unit.tx.insert(self._unlisted, [{"plural": kind.plural, "rebuild": rebuild} for kind in KINDS])

    def unlisted(self, unit: Unit) -> dict[str, str]:
        """The rebuild for which each kind must be listed, by plural."""
        query = select(self._unlisted).order_by(self._unlisted.c.plural)
        return {row.plural: row.rebuild for row in unit.tx.execute(query)}

    def listed(self, unit: Unit, plural: str, rebuild: str) -> None:
        """Record that a kind was listed whole, after this rebuild began; a later rebuild needs another list."""
        mine = and_(self._unlisted.c.plural == plural, self._unlisted.c.rebuild == rebuild)
        unit.tx.execute(delete(self._unlisted).where(mine))

    def confirm(self, unit: Unit, said: Testimony) -> None:
        """Trust the rows that somebody states; an edge gets the relation that is stated now."""
        self._trust(unit, Part.VERTEX, self._among(unit, Part.VERTEX, [(each.name, "") for each in said.vertices]))
        relations = {(edge.child, edge.parent): edge.relation for edge in said.edges}
        doubted, edges = self._among(unit, Part.EDGE, relations), self._graph.edges
        same = and_(edges.c.child == bindparam("one"), edges.c.parent == bindparam("two"))
        if doubted:
            stated = [{"one": each[0], "two": each[1], "stated": relations[each]} for each in sorted(doubted)]
            unit.tx.execute(update(edges).where(same).values(relation=bindparam("stated")), stated)
        self._trust(unit, Part.EDGE, doubted)

    def confirm_manifest(self, unit: Unit, key: str, resource: str) -> bool:
        """Trust that a resource names a manifest, which must be read again. Returns False if it was not doubted."""
        doubted = self._among(unit, Part.MANIFEST, [(key, resource)])
        if doubted:
            self._trust(unit, Part.MANIFEST, doubted)
            manifests = self._graph.manifests
            named = and_(manifests.c.key == key, manifests.c.resource == resource)
            unit.tx.execute(update(manifests).where(named).values(state=Reading.UNREAD.value))
        return bool(doubted)

    def keep(self, unit: Unit, noted: Noted) -> None:
        """Trust the rows of a manifest that cannot be read: they are nowhere else."""
        made_of_shards = noted.kind == Kind.INGEST
        edges = [
            edge
            for edge in self._graph.edges_of(unit, [noted.resource], up=not made_of_shards)
            if (edge.child if made_of_shards else edge.parent).startswith(SHARDS)
        ]
        shards = [Vertex(edge.child, "document-shard") for edge in edges] if made_of_shards else []
        self.confirm(unit, Testimony(tuple(shards), tuple(edges)))

    def finish(self, unit: Unit) -> None:
        """Remove the rows that are still doubted, once every kind was listed and every manifest was read."""
        doubted = self._doubted
        if unit.tx.execute(select(doubted.c.part).limit(1)).first() is None:
            return
        if self.unlisted(unit) or self._graph.noted(unit, Reading.UNREAD, limit=1):
            return
        for part, table, name, other in self._parts():
            mine = and_(doubted.c.part == part.value, doubted.c.name == name, doubted.c.other == other)
            unit.tx.execute(delete(table).where(exists().where(mine)))
        unit.tx.execute(delete(doubted))

    def extent(self, unit: Unit) -> Extent:
        """Return the size of the graph now."""
        vertices, edges, manifests = self._graph.all
        # First: a list marks manifests as unread before it is complete, so a count of them afterwards misses none.
        unlisted = tuple(self.unlisted(unit))

        def count(*states: Reading) -> int:
            query = select(func.count()).select_from(manifests).where(manifests.c.state.in_([s.value for s in states]))
            return int(unit.tx.execute(query).scalar_one())

        sizes = [
            int(unit.tx.execute(select(func.count()).select_from(table)).scalar_one())
            for table in (vertices, edges, self._doubted)
        ]
        return Extent(
            vertices=sizes[0],
            edges=sizes[1],
            manifests=count(*Reading),
            unread=count(Reading.UNREAD),
            unreadable=count(*UNREADABLE),
            doubted=sizes[2],
            unlisted=unlisted,
        )

    def _parts(self) -> list[tuple[Part, Table, ColumnElement[str], ColumnElement[str]]]:
        """Each table of the graph, and the two columns that identify a row of it."""
        vertices, edges, manifests = self._graph.all
        return [
            (Part.VERTEX, vertices, vertices.c.name, literal("")),
            (Part.EDGE, edges, edges.c.child, edges.c.parent),
            (Part.MANIFEST, manifests, manifests.c.key, manifests.c.resource),
        ]

    def _among(self, unit: Unit, part: Part, rows: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """The doubted rows among these."""
        stated, doubted = set(rows), self._doubted
        names, found = sorted({name for name, _ in stated}), set[tuple[str, str]]()
        for at in range(0, len(names), CHUNK):
            query = select(doubted).where(doubted.c.part == part.value, doubted.c.name.in_(names[at : at + CHUNK]))
            found |= {(row.name, row.other) for row in unit.tx.execute(query)}
        return found & stated

    def _trust(self, unit: Unit, part: Part, rows: Collection[tuple[str, str]]) -> None:
        doubted = self._doubted
        mine = (doubted.c.part == part.value, doubted.c.name == bindparam("one"), doubted.c.other == bindparam("two"))
        if rows:
            unit.tx.execute(delete(doubted).where(*mine), [{"one": one, "two": two} for one, two in sorted(rows)])
