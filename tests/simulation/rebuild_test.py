"""A rebuild of the graph of lineage, over all real services: killed at any time, and while a run is under way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from tests.simulation.story import CALM, CALM_NODES, MAIN, Script, Story, write_pages
from tutti.chassis.errors import PermissionDenied
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.references import Guarded
from tutti.chassis.store.unit import Unit
from tutti.contracts.lineage.v1 import Graph, RebuildGraphRequest, ShowGraphRequest
from tutti.contracts.lineage.v1.stubs import LineageServiceStub
from tutti.lineage.rpc import LineageApi
from tutti.lineage.tables import Reading, Tables

Rows = tuple[frozenset[tuple[Any, ...]], ...]


class Rebuilt:
    """One run over all services, and the graph that lineage has of it."""

    def __init__(self, pages: Path) -> None:
        self.story = Story("rebuild", Script(pages=3, index=True), pages, rates=CALM, node_rates=CALM_NODES)
        self.simulation = self.story.simulation
        self.lineage = LineageServiceStub(self.simulation.channel("lineage", Role.OPERATOR))

    @property
    def tables(self) -> Tables:
        api = self.simulation.lives["lineage"][0].service.serves[0].api
        assert isinstance(api, Guarded)
        assert isinstance(api.api, LineageApi)
        return api.api._tables

    def write(self, *statements: Any) -> None:
        self.simulation.peek("lineage", lambda unit: [unit.tx.execute(each) for each in statements] and None)

    def graph(self) -> Rows:
        def read(unit: Unit) -> Rows:
            return tuple(frozenset(map(tuple, unit.tx.execute(table.select()))) for table in self.tables.all)

        return self.simulation.peek("lineage", read)

    def rebuild(self, *, validate_only: bool = False) -> Graph:
        request = RebuildGraphRequest(validate_only=validate_only)
        return self.simulation.insist(lambda: self.lineage.RebuildGraph(request))

    def extent(self) -> Graph:
        return self.simulation.insist(lambda: self.lineage.ShowGraph(ShowGraphRequest()))

    def is_whole(self) -> bool:
        extent = self.extent()
        return not (extent.unlisted or extent.unread or extent.doubted)

    def settle(self) -> Rows:
        self.simulation.settle(until=self.is_whole)
        return self.graph()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebuilt]:
    """A run that ended, during which a rebuild began and was killed."""
    pages = tmp_path_factory.mktemp("pages")
    write_pages(pages)
    made = Rebuilt(pages)
    made.story.platform.add_node("a")
    made.story.create(MAIN, made.story.script)
    made.simulation.run(until=lambda: made.extent().vertices > 6, max_turns=20_000)
    assert made.rebuild().doubted
    made.simulation.crash("lineage")
    made.story.until_ended(MAIN)
    yield made
    made.story.close()


@pytest.fixture
def whole(world: Rebuilt) -> Rows:
    """The graph when nothing waits."""
    return world.settle()


def test_after_a_rebuild_that_was_killed_during_a_run_nothing_of_the_run_is_missing(
    world: Rebuilt, whole: Rows
) -> None:
    vertices, edges, manifests = whole
    kinds = {row[1] for row in vertices}
    assert kinds >= {"run", "ingest", "document-shard", "dedup", "tokenizer", "dataset", "job", "checkpoint", "index"}
    assert {row[0] for row in edges} | {row[1] for row in edges} <= {row[0] for row in vertices}
    assert {row[3] for row in manifests} == {Reading.READ.value}


def test_a_rebuild_of_a_whole_graph_changes_nothing(world: Rebuilt, whole: Rows) -> None:
    world.rebuild()
    assert world.settle() == whole


def test_a_dry_run_returns_the_size_and_changes_nothing(world: Rebuilt, whole: Rows) -> None:
    extent = world.rebuild(validate_only=True)
    assert (extent.vertices, extent.edges, extent.manifests) == tuple(map(len, whole))
    assert world.is_whole()


@pytest.mark.parametrize("turns", [0, 3, 10, 30, 100])
def test_a_damaged_graph_is_whole_again_whenever_the_rebuild_is_killed(world: Rebuilt, whole: Rows, turns: int) -> None:
    vertices, edges, manifests = world.tables.all
    world.write(
        delete(edges).where(edges.c.relation == "packed"),
        delete(vertices).where(vertices.c.kind == "document-shard"),
        delete(manifests).where(manifests.c.resource.startswith("dedups/")),
        update(vertices).where(vertices.c.kind == "dataset").values(digest="blake3:wrong"),
        update(edges).where(edges.c.relation == "trained").values(relation="stolen"),
        insert(vertices).values(name="jobs/nobody", kind="job", digest="", label=""),
        insert(edges).values(parent="jobs/nobody", child=MAIN, relation="made"),
        insert(manifests).values(key="none.json", resource="jobs/nobody", kind="ingest", state="missing"),
    )
    assert world.graph() != whole
    world.rebuild()
    for _ in range(3):
        if turns:
            world.simulation.run(max_turns=turns)
        world.simulation.crash("lineage")
    assert world.settle() == whole


def test_no_row_that_an_owner_states_is_missing_while_a_rebuild_is_under_way(world: Rebuilt, whole: Rows) -> None:
    vertices, edges, _ = whole
    world.rebuild()
    looks = 0
    while not world.is_whole():
        looks += 1
        world.simulation.run(max_turns=1)
        now = world.graph()
        assert vertices <= now[0]
        assert edges <= now[1]
    assert looks > 3


def test_a_second_rebuild_starts_over(world: Rebuilt, whole: Rows) -> None:
    first = world.rebuild()
    world.simulation.run(until=lambda: world.extent().doubted < first.doubted, every=1)
    again = world.rebuild()
    assert (again.doubted, list(again.unlisted)) == (first.doubted, list(first.unlisted))
    assert world.settle() == whole


def test_rows_of_a_manifest_that_is_gone_are_kept(world: Rebuilt, whole: Rows) -> None:
    vertices, edges, manifests = whole
    keys = [row[0] for row in manifests if row[1].startswith(("ingests/", "dedups/", "datasets/"))]
    contents = {path: path.read_bytes() for path in map(world.story.platform.blob, keys)}
    for path in contents:
        path.unlink()
    world.rebuild()
    assert world.settle()[:2] == (vertices, edges)
    assert world.extent().unreadable == len(contents)
    for path, data in contents.items():
        path.write_bytes(data)
    world.simulation.run(until=lambda: not world.extent().unreadable)
    assert world.settle() == whole


@pytest.mark.parametrize("role", [Role.ENGINEER, Role.ANNOTATOR, Role.AGENT, Role.SERVICE])
def test_only_operators_rebuild_the_graph(world: Rebuilt, role: Role) -> None:
    stub = LineageServiceStub(world.simulation.channel("lineage", role))
    with pytest.raises(PermissionDenied):
        world.simulation.insist(lambda: stub.RebuildGraph(RebuildGraphRequest()))
