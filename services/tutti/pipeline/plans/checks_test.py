"""A recipe is looked at before anything starts: all that is wrong with it, and what it needs."""

from pathlib import Path

import pytest

from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, Forecast
from tutti.pipeline.world_test import CALL, RECIPE, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def asked(world: World, *overrides: str) -> CheckRecipeRequest:
    return CheckRecipeRequest(recipe=RECIPE, overrides=overrides, directory=str(world.folder))


def problems(world: World, *overrides: str) -> list[str]:
    request = asked(world, *overrides)
    request.all_problems = True
    return [each.key for each in world.api.CheckRecipe(request, CALL).problems]


def forecasts(world: World, *overrides: str) -> dict[str, Forecast]:
    request = asked(world, *overrides)
    request.forecast = True
    return {each.stage: each for each in world.api.CheckRecipe(request, CALL).forecasts}


def test_all_that_the_text_the_folders_and_the_owners_say_is_told_at_once(world: World) -> None:
    assert problems(world) == []
    assert problems(world, "train.ranks=9", "train.warmup=21") == ["train.ranks", "train.warmup"]
    wrong = ("quality.classifiers=none", "input.path=nowhere", "dedup.decontaminate.path=nothing")
    owned = ("quality.rules=none", "dedup.against=datasets/none", "tokenizer.pattern=(")
    assert problems(world, *wrong, *owned) == [
        "quality.classifiers",
        "input.path",
        "dedup.decontaminate.path",
        "quality.rules",
        "dedup.against",
        "tokenizer.pattern",
    ]
    several = ("trian.steps=3", "size=huge", "input.path=nowhere", "quality.rules=none")
    assert problems(world, *several) == ["trian.steps", "size", "input.path", "quality.rules"]
    assert not world.api.ListRuns(ListRequest(), CALL).runs


def test_a_forecast_rests_on_the_newest_run_that_did_the_stage(world: World) -> None:
    assert "make run" in forecasts(world)["ingest"].basis
    run = world.create()
    world.pass_time(4)
    world.ingest.made[next(iter(world.ingest.made))].documents = 5000  # a page may hold many
    world.finish()
    assert forecasts(world) == {}
    world.page("b.html", "two")
    world.page("c.html", "three")
    told = forecasts(world)
    assert list(told) == ["ingest", "filter", "dedup", "tokenization", "train"]
    assert told["ingest"].seconds == 12.0
    assert told["ingest"].basis.startswith(f"by {run.name}, work x 3; memory as in ")
    assert told["ingest"].disk_bytes > 0
    assert told["train"].disk_bytes > 0


def test_of_an_earlier_run_a_forecast_goes_by_the_pages_that_it_read(world: World) -> None:
    run = world.create()
    world.pass_time(4)
    world.ingest.made[next(iter(world.ingest.made))].documents = 5000
    world.finish()
    world.page("b.html", "two")  # it has no part in what was read before
    world.ingest.version = "9"
    answer = world.api.CheckRecipe(CheckRecipeRequest(again=run.name, forecast=True), CALL)
    assert (answer.input_files, answer.input_bytes) == (1, 3)
    told = next(each for each in answer.forecasts if each.stage == "ingest")
    assert told.basis.startswith(f"by {run.name}, work x 1;")


def test_a_stage_that_was_taken_up_again_is_no_measure(world: World) -> None:
    run = world.create()
    world.pass_time(2)
    world.start()
    world.pass_time(2)
    world.finish()
    taken_up = {each.name: each.resumptions for each in world.run(run.name).stages}
    assert {name for name, count in taken_up.items() if count} == {"ingest"}
    world.page("b.html", "two")
    assert "make run" in forecasts(world)["ingest"].basis


def test_a_run_whose_blobs_are_gone_is_no_measure(world: World) -> None:
    run = world.create()
    world.pass_time(4)
    world.finish()
    stage = next(each for each in world.run(run.name).stages if each.name == "ingest")
    world.blobs.delete(stage.manifest_key)
    world.page("b.html", "two")
    assert "make run" in forecasts(world)["ingest"].basis
