"""A recipe against the machines: refused for what cannot work on any, warned of what is near or may still come."""

import shutil
from pathlib import Path

import pytest

from tutti.chassis.errors import AlreadyExists, InvalidField, Unavailable
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest
from tutti.contracts.scheduler.v1 import Node as Machine
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.capacity import Capacity, capacity_of, misfits, warnings
from tutti.pipeline.plans.reading import read
from tutti.pipeline.runs.capacities import JOIN_SECONDS
from tutti.pipeline.world_test import CALL, RECIPE, World

GIB = 2**30
A, B = Machine(name="nodes/a", slots=2, memory_bytes=8 * GIB), Machine(name="nodes/b", slots=4, memory_bytes=16 * GIB)
GPU = Machine(name="nodes/g", slots=1)
LONG = ("data.context=200000",)
WIDE = ("train.microbatches=64", "train.ranks=64")


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.train.nodes = (A,)
    return found


def judged(capacity: Capacity, *overrides: str) -> tuple[list[str], list[str]]:
    node = graph.node_of(read(RECIPE, overrides), "train")
    return [each.field for each in misfits(node, capacity)], list(warnings(node, capacity))


def test_the_largest_node_counts_and_one_without_known_memory_refuses_nothing() -> None:
    opened = capacity_of([A, B], closed=False, here=0, slots=8)
    assert (opened.slots, opened.largest, opened.total, opened.where) == (6, 16 * GIB, 24 * GIB, "nodes/b")
    assert capacity_of([A, GPU], closed=False, here=0, slots=8).largest == 0
    one = capacity_of([A, Machine(name="nodes/c", slots=2, memory_bytes=8 * GIB)], closed=True, here=8 * GIB, slots=8)
    assert (one.slots, one.total) == (4, 8 * GIB)
    new = capacity_of([], closed=True, here=4 * GIB, slots=8)
    assert (new.slots, new.largest, new.where) == (8, 4 * GIB, "this machine")
    assert capacity_of([], closed=False, here=0, slots=8).largest == 0


def test_what_no_node_has_memory_for_is_refused_and_what_is_near_is_a_warning() -> None:
    large = Capacity(8, 16 * GIB, 16 * GIB, "nodes/b")
    assert judged(large) == ([], [])
    assert judged(large, *LONG)[0] == ["train"]
    assert judged(Capacity(8), *LONG) == ([], [])
    refused, near = judged(large, "data.context=30000", "train.ranks=2")
    assert refused == []
    assert "16.0 GiB" in near[0]
    together, _ = judged(large, "data.context=40000", "train.ranks=2")
    assert together == ["train"]


def test_ranks_without_slots_are_refused_where_no_agent_comes_and_a_warning_elsewhere() -> None:
    assert judged(Capacity(8, closed=True), *WIDE) == (["train.ranks"], [])
    refused, told = judged(Capacity(8), *WIDE)
    assert refused == []
    assert "64 slots" in told[0]
    assert judged(Capacity(64, closed=True), *WIDE) == ([], [])


@pytest.mark.parametrize(("overrides", "field"), [(LONG, "train"), (WIDE, "train.ranks")])
def test_a_run_that_the_machine_cannot_hold_is_refused_before_it_is_recorded(
    overrides: tuple[str, ...], field: str, world: World
) -> None:
    create = CreateRunRequest(request_id="1", recipe=RECIPE, overrides=overrides, directory=str(world.folder))
    check = CheckRecipeRequest(recipe=RECIPE, overrides=overrides, directory=str(world.folder))
    world.pass_time(JOIN_SECONDS)
    for call, request in ((world.api.CreateRun, create), (world.api.CheckRecipe, check)):
        with pytest.raises(InvalidField) as refused:
            call(request, CALL)
        assert refused.value.field == field
    check.all_problems = True
    assert [each.key for each in world.api.CheckRecipe(check, CALL).problems] == [field]
    world.train.down = Unavailable("the scheduler is away")
    assert not world.api.CheckRecipe(check, CALL).problems


def test_agents_of_a_platform_that_has_just_started_are_waited_for(world: World) -> None:
    request = CreateRunRequest(request_id="1", recipe=RECIPE, overrides=WIDE, directory=str(world.folder))
    with pytest.raises(Unavailable, match="agents may still register"):
        world.api.CreateRun(request, CALL)
    world.train.nodes = (Machine(name="nodes/a", slots=64),)
    assert world.api.CreateRun(request, CALL).run.name


def test_a_request_is_answered_again_after_the_agent_left_and_its_folder_is_gone(world: World) -> None:
    request = CreateRunRequest(request_id="1", recipe=RECIPE, overrides=WIDE, directory=str(world.folder))
    world.train.nodes = (Machine(name="nodes/a", slots=64),)
    first = world.api.CreateRun(request, CALL).run
    named = CreateRunRequest(name="runs/mine", recipe=RECIPE, overrides=WIDE, directory=str(world.folder))
    assert world.api.CreateRun(named, CALL).run.name == "runs/mine"
    world.pass_time(JOIN_SECONDS)
    world.train.nodes = (A,)
    joined = CreateRunRequest(request_id="2", recipe=RECIPE, overrides=WIDE, directory=str(world.folder))
    assert world.api.CreateRun(joined, CALL).run.name == first.name, "the run has not ended"
    shutil.rmtree(world.folder / "pages")
    assert world.api.CreateRun(request, CALL).run.name == first.name
    assert world.api.CreateRun(named, CALL).run.name == "runs/mine"
    with pytest.raises(AlreadyExists):
        world.api.CreateRun(CreateRunRequest(request_id="1", recipe=RECIPE, directory=str(world.folder)), CALL)


def test_a_training_that_is_reused_needs_no_memory(world: World) -> None:
    run = world.create()
    world.finish()
    world.train.nodes = (Machine(name="nodes/a", slots=2, memory_bytes=1 << 20),)
    again = world.create()
    assert again.name != run.name
    with pytest.raises(InvalidField, match="of memory"):
        world.create("train.steps=21")
