"""What a rebuild of the graph of lineage promises, with the same test ids on every database."""

import threading
from functools import partial
from typing import Any, Protocol

import pytest
from sqlalchemy import MetaData, delete, insert, update

from tutti.backbone import Database, Isolation, ManualClock, SystemRandomness
from tutti.chassis.store.unit import Unit, Units
from tutti.lineage import graph
from tutti.lineage.graph import KINDS, Edge, Vertex
from tutti.lineage.rebuild import Rebuild
from tutti.lineage.tables import Noted, Reading, Tables

INGEST, DEDUP, KEY = "ingests/a", "dedups/a", "ingest/manifests/a.json"
SHARDS = [Vertex(f"document-shards/{number}", "document-shard", f"blake3:{number}") for number in range(3)]
STATED = graph.Testimony((Vertex(INGEST, "ingest"), Vertex(DEDUP, "dedup")), (Edge(INGEST, DEDUP, "read"),))
MANIFEST = graph.Testimony(tuple(SHARDS), tuple(Edge(INGEST, shard.name, "read") for shard in SHARDS))


class Place(Protocol):
    db: Database
    overlaps: bool

    def client(self) -> Database: ...


class Bench:
    """A graph of two resources and the shards of a manifest, on one database."""

    def __init__(self, place: Place) -> None:
        self.metadata = MetaData()
        self.tables = Tables(self.metadata)
        self.rebuild = Rebuild(self.metadata, self.tables)
        self.units = self.another(place.db)
        place.db.create(self.metadata)
        self.units.run(self.admit)
        self.units.run(lambda unit: self.tables.settle(unit, self.noted, Reading.READ))

    @property
    def noted(self) -> Noted:
        return Noted(KEY, INGEST, "ingest", Reading.UNREAD)

    def another(self, db: Database) -> Units:
        return Units(db, "lineage", self.metadata, clock=ManualClock(), randomness=SystemRandomness())

    def admit(self, unit: Unit) -> None:
        self.tables.admit(unit, STATED)
        self.tables.note_manifest(unit, key=KEY, resource=INGEST, kind="ingest")
        self.tables.admit(unit, MANIFEST)

    def graph(self) -> list[set[tuple[Any, ...]]]:
        return self.units.run(lambda unit: [set(map(tuple, unit.tx.execute(t.select()))) for t in self.tables.all])

    def list_owners(self) -> None:
        """Do as the leader does: list every kind that the rebuild waits for."""
        for plural, rebuild in self.units.run(self.rebuild.unlisted).items():
            self.units.run(self.list_page)
            self.units.run(partial(self.rebuild.listed, plural=plural, rebuild=rebuild))

    def list_page(self, unit: Unit) -> None:
        self.tables.admit(unit, STATED)
        self.rebuild.confirm(unit, STATED)
        self.rebuild.confirm_manifest(unit, KEY, INGEST)

    def read_manifest(self, state: Reading) -> None:
        def settle(unit: Unit) -> None:
            self.tables.settle(unit, self.noted, state)
            if state is Reading.READ:
                self.tables.admit(unit, MANIFEST)
                self.rebuild.confirm(unit, MANIFEST)
            else:
                self.rebuild.keep(unit, self.noted)

        self.units.run(settle)


@pytest.fixture
def bench(database_place: Place) -> Bench:
    return Bench(database_place)


def damage(bench: Bench, unit: Unit) -> None:
    vertices, edges, manifests = bench.tables.all
    unit.tx.execute(delete(vertices).where(vertices.c.name == SHARDS[0].name))
    unit.tx.execute(delete(edges).where(edges.c.child == SHARDS[1].name))
    unit.tx.execute(update(edges).where(edges.c.child == DEDUP).values(relation="stolen"))
    unit.tx.execute(insert(vertices).values(name="jobs/x", kind="job", digest="", label=""))
    unit.tx.execute(insert(edges).values(parent="jobs/x", child=DEDUP, relation="made"))
    unit.tx.execute(insert(manifests).values(key="x", resource="jobs/x", kind="ingest", state="missing"))


def test_a_damaged_graph_becomes_what_owners_and_manifests_state(bench: Bench) -> None:
    whole = bench.graph()
    bench.units.run(lambda unit: damage(bench, unit))
    bench.units.run(bench.rebuild.begin)
    assert set(bench.units.run(bench.rebuild.unlisted)) == {kind.plural for kind in KINDS}
    damaged = bench.graph()
    bench.units.run(bench.rebuild.finish)
    assert bench.graph() == damaged, "rows were removed before their owners were listed"
    bench.list_owners()
    listed = bench.graph()
    bench.units.run(bench.rebuild.finish)
    assert bench.graph() == listed, "rows were removed before the manifest was read"
    bench.read_manifest(Reading.READ)
    bench.units.run(bench.rebuild.finish)
    assert bench.graph() == whole
    assert bench.units.run(bench.rebuild.extent).doubted == 0


@pytest.mark.parametrize("state", [Reading.MISSING, Reading.DAMAGED])
def test_rows_of_a_manifest_that_cannot_be_read_stay(bench: Bench, state: Reading) -> None:
    vertices, edges, _ = bench.graph()
    bench.units.run(bench.rebuild.begin)
    bench.list_owners()
    bench.read_manifest(state)
    bench.units.run(bench.rebuild.finish)
    assert bench.graph()[:2] == [vertices, edges]
    assert bench.units.run(bench.rebuild.extent).unreadable == 1


def test_a_list_for_an_earlier_rebuild_does_not_count(bench: Bench) -> None:
    bench.units.run(bench.rebuild.begin)
    plural, rebuild = next(iter(bench.units.run(bench.rebuild.unlisted).items()))
    bench.units.run(bench.rebuild.begin)
    bench.units.run(lambda unit: bench.rebuild.listed(unit, plural, rebuild))
    assert plural in bench.units.run(bench.rebuild.unlisted)


def test_the_leader_and_a_consumer_may_add_the_same_rows_at_the_same_time(bench: Bench, database_place: Place) -> None:
    said = graph.Testimony((Vertex("jobs/new", "job"),), (Edge(DEDUP, "jobs/new", "trained"),))
    runs = list[None]()

    def admit(unit: Unit) -> None:
        bench.tables.admit(unit, said)
        bench.tables.note_manifest(unit, key="new.json", resource=DEDUP, kind="dedup")

    def be_overtaken(unit: Unit) -> None:
        known = bench.tables.vertex(unit, "jobs/new")
        runs.append(None)
        if len(runs) == 1 and database_place.overlaps:
            assert known is None
            bench.another(database_place.client()).run(admit, isolation=Isolation.READ_COMMITTED)
        admit(unit)

    bench.units.run(be_overtaken)
    assert len(runs) >= (2 if database_place.overlaps else 1)
    assert said.edges[0] in bench.units.run(lambda unit: list(bench.tables.edges_of(unit, ["jobs/new"], up=True)))


def test_events_that_are_handled_during_rebuilds_lose_no_row(bench: Bench, database_place: Place) -> None:
    """A consumer and the leader write the same rows at the same time."""
    consumer, ended, failures = bench.another(database_place.client()), threading.Event(), list[Exception]()
    vertices, edges, _ = bench.graph()
    names = [f"jobs/{number}" for number in range(10)]
    jobs = [graph.Testimony((Vertex(name, "job"),), (Edge(DEDUP, name, "trained"),)) for name in names]

    def handle() -> None:
        try:
            for job in jobs:
                consumer.run(lambda unit: bench.tables.admit(unit, STATED), isolation=Isolation.READ_COMMITTED)
                consumer.run(lambda unit, job=job: bench.tables.admit(unit, job), isolation=Isolation.READ_COMMITTED)  # type: ignore[misc]
        except Exception as error:
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=handle)
    thread.start()
    over = False
    while not over:
        over = ended.is_set()
        bench.units.run(bench.rebuild.begin)
        for job in jobs:  # the owner states what the consumer has seen, and nothing is added here
            bench.units.run(lambda unit, job=job: bench.rebuild.confirm(unit, job))  # type: ignore[misc]
        bench.list_owners()
        bench.read_manifest(Reading.READ)
        bench.units.run(bench.rebuild.finish)
    thread.join()
    assert not failures
    now = bench.graph()
    assert now[0] == vertices | {(name, "job", "", "") for name in names}
    assert now[1] == edges | {(DEDUP, name, "trained") for name in names}
    assert bench.units.run(bench.rebuild.extent).doubted == 0
