"""The graph: what resources say, and walks over it."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.lineage import graph
from tutti.lineage.graph import Edge, walk


def neighbours(edges: set[Edge], *, up: bool):  # type: ignore[no-untyped-def]
    def of(names: list[str]) -> Iterator[Edge]:
        return (edge for edge in edges if (edge.child if up else edge.parent) in names)

    return of


def test_a_run_made_its_stages_and_each_stage_reads_the_one_before() -> None:
    run = Run(name="runs/a", stages=[Stage(resource="ingests/a"), Stage(resource="dedups/a"), Stage(resource="jobs/a")])
    assert set(graph.testimony(run).edges) == {
        Edge("runs/a", "ingests/a", "made"),
        Edge("runs/a", "dedups/a", "made"),
        Edge("runs/a", "jobs/a", "made"),
        Edge("ingests/a", "dedups/a", "read"),
    }


def test_a_checkpoint_came_from_its_job_and_the_checkpoint_before() -> None:
    said = graph.testimony(Checkpoint(name="checkpoints/a/0/4", job="a", parent="checkpoints/a/0/2"))
    assert set(said.edges) == {
        Edge("jobs/a", "checkpoints/a/0/4", "made"),
        Edge("checkpoints/a/0/2", "checkpoints/a/0/4", "resumed"),
    }


names = st.integers(0, 12)


@given(st.sets(st.tuples(names, names)), names, st.booleans())
def test_a_walk_reaches_exactly_what_is_reachable(pairs: set[tuple[int, int]], start: int, up: bool) -> None:
    edges = {Edge(f"a/{parent:02}", f"a/{child:02}", "made") for parent, child in pairs}
    reached, grew = {f"a/{start:02}"}, True
    while grew:
        more = {(e.parent if up else e.child) for e in edges if (e.child if up else e.parent) in reached}
        grew = not more <= reached
        reached |= more
    found = walk(f"a/{start:02}", up=up, neighbours=neighbours(edges, up=up), limit=100)
    assert set(found.names) == reached
    assert len(found.names) == len(reached)
    assert not found.truncated


def test_a_walk_that_was_cut_says_so() -> None:
    edges = {Edge("a/0", f"a/{child}", "made") for child in range(1, 9)}
    found = walk("a/0", up=False, neighbours=neighbours(edges, up=False), limit=4)
    assert len(found.names) == 4
    assert found.truncated
