"""The tables of lineage: a read model that can be made anew from the owners at any time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    MetaData,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    delete,
    select,
    update,
)

from tutti.chassis.store.statements import prepared
from tutti.chassis.store.tables import declare
from tutti.chassis.store.unit import Unit
from tutti.lineage.graph import WEAK, Edge, Testimony, Vertex, strongest

CHUNK = 200


class Reading(StrEnum):
    """The state of reading a manifest."""

    UNREAD = "unread"
    READ = "read"
    MISSING = "missing"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class Noted:
    """A manifest that a resource names; one manifest may be named by several."""

    key: str
    resource: str
    kind: str
    state: Reading


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.vertices = declare(
            "lineage_vertices",
            metadata,
            Column("name", String(400), primary_key=True),
            Column("kind", String(40), nullable=False),
            Column("digest", String(80), nullable=False),
            Column("label", Text, nullable=False),
        )
        self.edges = declare(
            "lineage_edges",
            metadata,
            Column("parent", String(400), primary_key=True),
            Column("child", String(400), primary_key=True, index=True),
            Column("relation", String(40), nullable=False),
        )
        self.manifests = declare(
            "lineage_manifests",
            metadata,
            Column("key", String(400), primary_key=True),
            Column("resource", String(400), primary_key=True),
            Column("kind", String(40), nullable=False),
            Column("state", String(10), nullable=False, index=True),
        )
        self.all = (self.vertices, self.edges, self.manifests)

    def admit(self, unit: Unit, said: Testimony) -> None:
        """Add what is new; a vertex that learnt its digest or label is rewritten."""
        for vertex in said.vertices:
            known = self.vertex(unit, vertex.name)
            values = {"kind": vertex.kind, "digest": vertex.digest, "label": vertex.label}
            if known is None:
                unit.insert_new(self.vertices, [{"name": vertex.name, **values}])
            elif known != vertex:
                unit.tx.execute(update(self.vertices).where(self.vertices.c.name == vertex.name).values(**values))
        edges = strongest(said.edges)
        relations = {(edge.parent, edge.child): edge.relation for edge in self._between(unit, edges)}
        fresh = [edge for edge in edges if (edge.parent, edge.child) not in relations]
        unit.insert_new(self.edges, [{"parent": e.parent, "child": e.child, "relation": e.relation} for e in fresh])
        for edge in edges:  # in whatever order they come, one with descent counts
            if relations.get((edge.parent, edge.child)) in WEAK and edge.relation not in WEAK:
                same = and_(self.edges.c.parent == edge.parent, self.edges.c.child == edge.child)
                unit.tx.execute(update(self.edges).where(same).values(relation=edge.relation))

    def _between(self, unit: Unit, edges: Iterable[Edge]) -> Iterator[Edge]:
        return self.edges_of(unit, sorted({edge.child for edge in edges}), up=True)

    def vertex(self, unit: Unit, name: str) -> Vertex | None:
        row = unit.tx.execute(_named(self.vertices), {"wanted": name}).first()
        return Vertex(row.name, row.kind, row.digest, row.label) if row else None

    def vertices_of(self, unit: Unit, names: list[str]) -> dict[str, Vertex]:
        found: dict[str, Vertex] = {}
        for at in range(0, len(names), CHUNK):
            query = select(self.vertices).where(self.vertices.c.name.in_(names[at : at + CHUNK]))
            found |= {row.name: Vertex(row.name, row.kind, row.digest, row.label) for row in unit.tx.execute(query)}
        return found

    def named(self, unit: Unit, kind: str) -> list[str]:
        query = select(self.vertices.c.name).where(self.vertices.c.kind == kind).order_by(self.vertices.c.name)
        return [row.name for row in unit.tx.execute(query)]

    def edges_of(self, unit: Unit, names: list[str], *, up: bool) -> Iterator[Edge]:
        query = _edges(self.edges, "child" if up else "parent")
        for at in range(0, len(names), CHUNK):
            for row in unit.tx.execute(query, {"names": names[at : at + CHUNK]}).all():
                yield Edge(row.parent, row.child, row.relation)

    def parents(self, unit: Unit, prefix: str) -> dict[str, str]:
        """The parent of each checkpoint whose name has this prefix, from which it was resumed."""
        wanted = and_(self.edges.c.relation == "resumed", self.edges.c.child.startswith(prefix, autoescape=True))
        return {row.child: row.parent for row in unit.tx.execute(select(self.edges).where(wanted))}

    def note_manifest(self, unit: Unit, *, key: str, resource: str, kind: str) -> bool:
        """Remember a manifest that must be read; whether it is new for this resource."""
        named = {"key": key, "resource": resource}
        if not key or unit.tx.execute(_manifest(self.manifests), named).first():
            return False
        values = {**named, "kind": kind, "state": Reading.UNREAD.value}
        unit.insert_new(self.manifests, [values])
        return True

    def drop_manifests(self, unit: Unit, resource: str) -> None:
        """Forget the manifests of a resource that may no longer be read."""
        unit.tx.execute(delete(self.manifests).where(self.manifests.c.resource == resource))

    def noted(self, unit: Unit, *states: Reading, limit: int | None = None) -> list[Noted]:
        """The manifests in one of these states, by key and resource."""
        among = self.manifests.c.state.in_([state.value for state in states])
        query = select(self.manifests).where(among).order_by(self.manifests.c.key, self.manifests.c.resource)
        rows = unit.tx.execute(query.limit(limit)).all()
        return [Noted(row.key, row.resource, row.kind, Reading(row.state)) for row in rows]

    def settle(self, unit: Unit, noted: Noted, state: Reading) -> None:
        where = self._of(noted.key, noted.resource)
        unit.tx.execute(update(self.manifests).where(where).values(state=state.value))

    def keys(self, unit: Unit, kind: str) -> list[tuple[str, str]]:
        """(key, resource) of all manifests of a kind."""
        query = select(self.manifests).where(self.manifests.c.kind == kind)
        query = query.order_by(self.manifests.c.key, self.manifests.c.resource)
        return [(row.key, row.resource) for row in unit.tx.execute(query)]

    def _of(self, key: str, resource: str) -> ColumnElement[bool]:
        return and_(self.manifests.c.key == key, self.manifests.c.resource == resource)


@prepared
def _named(vertices: Table) -> Select[Any]:
    return select(vertices).where(vertices.c.name == bindparam("wanted"))


@prepared
def _edges(edges: Table, end: str) -> Select[Any]:
    return select(edges).where(edges.c[end].in_(bindparam("names", expanding=True)))


@prepared
def _manifest(manifests: Table) -> Select[Any]:
    of = (manifests.c.key == bindparam("key"), manifests.c.resource == bindparam("resource"))
    return select(manifests.c.key).where(*of)
