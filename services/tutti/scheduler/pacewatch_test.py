"""Stragglers: named with node and ratio, shown by a metric, and nothing is stopped."""

from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.chassis.metrics import metrics
from tutti.contracts.scheduler.v1 import JOB_STATE_RUNNING, Pace, ReportProgressRequest, Straggler
from tutti.scheduler.pacewatch import straggler
from tutti.scheduler.world_test import CALL, Agent, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    straggler.clear()  # of other worlds in this process
    return World(tmp_path)


def report(world: World, step: int, **slow: float) -> None:
    """The agent of rank 0 reports the pace of a window; slow: ratios by rank, such as r2=4.0."""
    pace = Pace(step=step, stragglers=[Straggler(rank=int(rank[1:]), ratio=ratio) for rank, ratio in slow.items()])
    job = world.job()
    request = ReportProgressRequest(job=job.name, epoch=job.epoch, node="nodes/a", step=step, loss=3.0, pace=pace)
    world.api.ReportProgress(request, CALL)
    world.pass_time(20.0)


def gang(world: World) -> list[Agent]:
    """Ranks 0 and 1 on one node, 2 and 3 on another."""
    agents = [Agent(world, "a"), Agent(world, "b")]
    world.create(ranks=4, steps=1000)
    for agent in agents:
        agent.run()
    return agents


def shown() -> dict[tuple[str, str], float]:
    """The ratios that the metric shows, by rank and node."""
    (family,) = [each for each in metrics.registry.collect() if each.name == "straggler_ratio"]
    return {(sample.labels["rank"], sample.labels["node"]): sample.value for sample in family.samples}


def test_a_straggler_is_named_with_its_node_and_ratio_and_goes_on(world: World) -> None:
    gang(world)
    before = world.job().history
    report(world, 22)
    assert (list(world.job().stragglers), world.job().history, shown()) == ([], before, {})
    report(world, 44, r2=4.0)
    report(world, 66, r2=3.5)
    job = world.job()
    assert (job.state, [(each.rank, each.node, each.ratio) for each in job.stragglers]) == (
        JOB_STATE_RUNNING,
        [(2, "nodes/b", 4.0)],
    )
    named = [line for line in job.history if line not in before]
    assert len(named) == 1
    assert all(words in named[0] for words in ("rank 2 ", "nodes/b", "4.0"))
    assert shown() == {("2", "nodes/b"): 4.0}


def test_one_that_caught_up_is_shown_no_longer_and_is_named_once_an_attempt(world: World) -> None:
    agents = gang(world)
    report(world, 22, r2=4.0)
    report(world, 44)
    report(world, 66, r1=1.6, r2=2.0)
    report(world, 88)
    assert [(each.rank, each.node, each.ratio) for each in world.job().stragglers] == [
        (1, "nodes/a", 0.0),
        (2, "nodes/b", 0.0),
    ]
    assert sum("is slow" in line for line in world.job().history) == 2
    assert shown() == {}
    report(world, 110, r3=2.0)
    agents[0].lose(0)
    for agent in agents:
        agent.release()
    world.pass_time(20.0)
    assert (world.job().epoch, list(world.job().stragglers), shown()) == (2, [], {})


def test_a_straggler_that_the_epoch_does_not_have_is_refused(world: World) -> None:
    gang(world)
    with pytest.raises(InvalidField, match="rank 4"):
        report(world, 22, r4=4.0)
    assert list(world.job().stragglers) == []


def test_a_pace_is_recorded_even_if_another_node_has_reported_a_later_step(world: World) -> None:
    gang(world)
    job = world.job()
    world.api.ReportProgress(ReportProgressRequest(job=job.name, epoch=1, node="nodes/b", step=30, loss=3.0), CALL)
    report(world, 22, r2=4.0)
    assert [each.rank for each in world.job().stragglers] == [2]
