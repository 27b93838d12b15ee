"""The tables of lineage: a read model that can be made anew from the owners at any time."""

from collections.abc import Iterable, Iterator

from sqlalchemy import Column, MetaData, String, Table, Text, insert, select, update

from tutti.chassis.unit import Unit
from tutti.lineage.graph import Edge, Testimony, Vertex

CHUNK = 200


class Tables:
    def __init__(self, metadata: MetaData) -> None:
        self.vertices = Table(
            "lineage_vertices",
            metadata,
            Column("name", String(400), primary_key=True),
            Column("kind", String(40), nullable=False),
            Column("digest", String(80), nullable=False),
            Column("label", Text, nullable=False),
        )
        self.edges = Table(
            "lineage_edges",
            metadata,
            Column("parent", String(400), primary_key=True),
            Column("child", String(400), primary_key=True, index=True),
            Column("relation", String(40), nullable=False),
        )
        self.manifests = Table(
            "lineage_manifests",
            metadata,
            Column("key", String(400), primary_key=True),
            Column("resource", String(400), nullable=False),
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
                unit.tx.execute(insert(self.vertices).values(name=vertex.name, **values))
            elif known != vertex:
                unit.tx.execute(update(self.vertices).where(self.vertices.c.name == vertex.name).values(**values))
        known_edges = {(edge.parent, edge.child) for edge in self._between(unit, said.edges)}
        fresh = {(edge.parent, edge.child): edge for edge in said.edges if (edge.parent, edge.child) not in known_edges}
        if fresh:
            rows = [{"parent": e.parent, "child": e.child, "relation": e.relation} for e in fresh.values()]
            unit.tx.execute(insert(self.edges), rows)

    def _between(self, unit: Unit, edges: Iterable[Edge]) -> Iterator[Edge]:
        return self.edges_of(unit, sorted({edge.child for edge in edges}), up=True)

    def vertex(self, unit: Unit, name: str) -> Vertex | None:
        row = unit.tx.execute(select(self.vertices).where(self.vertices.c.name == name)).first()
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
        column = self.edges.c.child if up else self.edges.c.parent
        for at in range(0, len(names), CHUNK):
            for row in unit.tx.execute(select(self.edges).where(column.in_(names[at : at + CHUNK]))).all():
                yield Edge(row.parent, row.child, row.relation)

    def every_edge(self, unit: Unit) -> Iterator[Edge]:
        for row in unit.tx.execute(select(self.edges).order_by(self.edges.c.parent, self.edges.c.child)).all():
            yield Edge(row.parent, row.child, row.relation)

    def note_manifest(self, unit: Unit, *, key: str, resource: str, kind: str) -> bool:
        """Remember a manifest that must be read; whether it is new."""
        if not key or unit.tx.execute(select(self.manifests.c.key).where(self.manifests.c.key == key)).first():
            return False
        unit.tx.execute(insert(self.manifests).values(key=key, resource=resource, kind=kind, state="unread"))
        return True

    def unread(self, unit: Unit, limit: int) -> list[tuple[str, str, str]]:
        """(key, resource, kind) of manifests that were not read yet."""
        query = select(self.manifests).where(self.manifests.c.state == "unread").order_by(self.manifests.c.key)
        return [(row.key, row.resource, row.kind) for row in unit.tx.execute(query.limit(limit))]

    def settle(self, unit: Unit, key: str, state: str) -> None:
        unit.tx.execute(update(self.manifests).where(self.manifests.c.key == key).values(state=state))

    def keys(self, unit: Unit, kind: str) -> list[tuple[str, str]]:
        """(key, resource) of all manifests of a kind."""
        query = select(self.manifests).where(self.manifests.c.kind == kind).order_by(self.manifests.c.key)
        return [(row.key, row.resource) for row in unit.tx.execute(query)]
