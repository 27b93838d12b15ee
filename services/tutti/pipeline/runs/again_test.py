"""A recipe that was carried out once, carried out again: over the same pages, without what was retracted since."""

import json
import shutil
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField, NotFound, Unavailable
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, CancelRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run
from tutti.pipeline.runs.references import dataset_of
from tutti.pipeline.runs.transitions_test import SITE, STAGES, again
from tutti.pipeline.world_test import CALL, RECIPE, World

LIST = "ingest/retracted/a.json"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def repeat(world: World, run: str, **more: str) -> Run:
    made = world.api.CreateRun(CreateRunRequest(again=run, **more), CALL).run  # type: ignore[arg-type]
    world.settle()
    return world.run(made.name)


def states(run: Run) -> list[tuple[str, bool]]:
    return [(stage.name, stage.reused) for stage in run.stages]


def test_what_is_retracted_goes_to_the_filter_and_what_was_read_is_not_read_again(world: World) -> None:
    again(world)
    world.ingest.retracted = LIST
    assert again(world) == ["filter"]
    (first, second) = world.filters.made.values()
    assert (first.spec.retracted_key, second.spec.retracted_key) == ("", LIST)
    assert again(world) == []
    world.ingest.retracted = ""
    assert again(world) == []


def test_a_page_that_is_retracted_before_the_filter_was_asked_for_is_left_out_of_it(world: World) -> None:
    name = world.create().name
    world.filters.down = Unavailable("not now")
    world.finish("ingest")
    begun = world.run(name).stages[1]
    assert begun.reuse_key
    world.ingest.retracted, world.filters.down = LIST, None
    world.pass_time(60)
    (made,) = world.filters.made.values()
    assert (made.name, made.spec.retracted_key) == (begun.resource, LIST)
    assert world.run(name).stages[1].reuse_key != begun.reuse_key


def test_a_run_is_repeated_by_its_name_even_where_its_folder_is_gone(world: World) -> None:
    again(world)
    first = world.create()
    shutil.rmtree(world.folder / "pages")
    second = repeat(world, first.name)
    assert second.state == STATE_DONE
    assert second.name != first.name
    assert second.spec == first.spec
    assert states(second) == [(stage, True) for stage in STAGES]


def test_a_run_that_is_to_read_again_what_is_no_longer_there_fails_with_the_reason(world: World) -> None:
    again(world)
    name = world.create().name
    (read,) = world.ingest.made.values()
    world.blobs.delete(read.result.manifest_key)
    shutil.rmtree(world.folder / "pages")
    second = repeat(world, name)
    assert [stage.name for stage in second.stages if stage.reason] == ["ingest"]
    newest = list(world.ingest.made.values())[-1]
    assert newest.spec.input_digest == read.spec.input_digest
    world.fail_ingest("its pages are gone")
    assert world.run(second.name).state == STATE_FAILED


def test_a_crawl_is_repeated_with_where_its_hosts_lie(world: World) -> None:
    name = world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:80").name
    world.api.CancelRun(CancelRequest(name=name), CALL)
    second = repeat(world, name)
    crawl = list(world.crawls.made.values())[-1]
    assert (second.stages[0].name, crawl.spec.connect[0].address) == ("crawl", "127.0.0.1:80")


def test_an_unfinished_run_is_gone_on_with(world: World) -> None:
    name = world.create().name
    assert repeat(world, name).name == name


def test_what_a_repetition_would_do_is_said_without_doing_it(world: World) -> None:
    again(world)
    name = world.create().name
    world.ingest.retracted = LIST
    checked = world.api.CheckRecipe(CheckRecipeRequest(again=name), CALL)
    assert [stage.reused for stage in checked.stages] == [True, False, False, False, False]
    assert checked.recipe_digest == world.run(name).spec.recipe_digest


def test_a_run_that_is_none_and_a_run_beside_a_recipe_are_refused(world: World) -> None:
    with pytest.raises(NotFound, match="runs/none"):
        repeat(world, "runs/none")
    with pytest.raises(InvalidField, match="again"):
        repeat(world, "jobs/none")
    name = world.create().name
    with pytest.raises(InvalidField, match=r"again.*one alone"):
        repeat(world, name, recipe=RECIPE)
    with pytest.raises(InvalidField, match="recipe"):
        world.api.CreateRun(CreateRunRequest(), CALL)


def test_what_is_retracted_of_an_earlier_dataset_goes_to_dedup_and_nothing_before_it_is_made_again(
    world: World,
) -> None:
    again(world)
    first = dataset(world, world.create().name)
    world.page("b.html", "more")
    later = f"dedup.against={first}"
    again(world, later)
    world.ingest.retracted_earlier = LIST
    assert again(world, later) == ["dedup"]
    before, after = list(world.dedup.made.values())[-2:]
    (with_it,), (without,) = before.spec.against, after.spec.against
    assert (with_it.retracted_key, without.retracted_key) == ("", LIST)
    assert with_it.content_digest == without.content_digest
    assert again(world, later) == []
    world.ingest.retracted_earlier = ""
    assert again(world, later) == []


def dataset(world: World, run: str) -> str:
    return dataset_of(world.run(run))


def test_a_run_that_is_carried_out_again_is_compared_with_what_an_earlier_dataset_has_become(world: World) -> None:
    first = world.create().name
    world.finish()
    world.page("b.html", "another page")
    second = world.create(f"dedup.against={dataset(world, first)}")
    world.finish()
    assert repeat(world, second.name).spec.recipe == second.spec.recipe, "nothing has changed"
    world.settle()
    world.tokenization.version = "2"  # by which the same documents give another dataset, as without a page
    world.clock.advance(1)
    anew = repeat(world, first).name
    world.finish("tokenization", "train")
    last = repeat(world, second.name)
    assert dataset(world, anew) != dataset(world, first)
    assert json.loads(last.spec.recipe)["dedup"]["against"] == [dataset(world, anew)]
    assert last.spec.origin == second.spec.recipe_digest


def test_a_mixture_that_is_carried_out_again_takes_what_its_parts_have_become(world: World) -> None:
    first = world.create("name=first").name
    world.finish()
    world.page("b.html", "another page")
    second = world.create("name=second", f"tokenizer.of={first}").name
    world.finish()
    world.page("c.html", "a third page")
    mixture = [f"mixture.datasets.{name}=2" for name in (first, second)]
    third = world.create("name=third", f"tokenizer.of={first}", *mixture)
    world.finish()
    assert repeat(world, third.name).spec.recipe == third.spec.recipe, "nothing has changed"
    world.settle()
    world.tokenization.version = "2"  # by which the same documents give another tokenizer, as without a page
    world.clock.advance(1)
    anew = repeat(world, first).name
    world.finish("tokenization", "train")
    with pytest.raises(InvalidField, match=r"mixture\.datasets.*the tokenizer"):
        repeat(world, third.name)
    world.clock.advance(1)
    other = repeat(world, second)
    world.finish("tokenization", "train")
    assert (other.spec.origin, other.spec.recipe_digest) != ("", other.spec.origin)
    last = repeat(world, third.name)
    recipe = json.loads(last.spec.recipe)
    assert set(recipe["mixture"]["datasets"]) == {dataset(world, anew), dataset(world, other.name)}
    assert recipe["tokenizer"]["of"] == world.tokenization.datasets[dataset(world, anew)].tokenizer
    assert not {first, second} & {anew, other.name}
    assert dataset(world, first) != dataset(world, anew)
