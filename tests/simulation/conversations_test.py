"""A stage of conversations by a recipe: the real services, near-duplicates as dedup finds them, and licences."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, GetRequest
from tutti.contracts.ingest.v1 import Conversations
from tutti.contracts.ingest.v1.stubs import ConversationsServiceStub
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.dedup.service import build as build_dedup
from tutti.ingest.service import build as build_ingest
from tutti.pipeline.service import build as build_pipeline
from tutti.simulation import Simulation

BUILDS = {"ingest": build_ingest, "dedup": build_dedup, "pipeline": build_pipeline}
LONG = " ".join(f"w{number}" for number in range(80))


@pytest.fixture
def world() -> Iterator[Simulation]:
    with Simulation(0, builds=BUILDS, rates={}) as simulation:
        yield simulation


def write(folder: Path, *records: dict[str, str]) -> None:
    (folder / "asked.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


def gathered(world: Simulation, folder: Path, name: str, **keys: object) -> tuple[Conversations, str]:
    """The conversations of a run with one stage, and the stage's summary."""
    recipe = {"name": name, "stages": {"prompts": {"kind": "conversations", "path": "asked.jsonl", **keys}}}
    pipeline = PipelineServiceStub(world.channel("pipeline"))
    request = CreateRunRequest(request_id=name, name=f"runs/{name}", recipe=json.dumps(recipe), directory=str(folder))
    world.insist(lambda: pipeline.CreateRun(request))

    def ended() -> bool:
        run = world.insist(lambda: pipeline.GetRun(GetRequest(name=request.name)))
        assert run.state != STATE_FAILED, run.reason
        return bool(run.state == STATE_DONE)

    world.run(until=ended)
    [stage] = world.insist(lambda: pipeline.GetRun(GetRequest(name=request.name))).stages
    ingest = ConversationsServiceStub(world.channel("ingest"))
    made = world.insist(lambda: ingest.GetConversations(GetRequest(name=stage.resource)))
    assert made.result.content_digest == stage.content_digest
    return made, stage.summary


def test_near_duplicates_are_rejected_and_quoted_unless_the_recipe_keeps_them(
    world: Simulation, tmp_path: Path
) -> None:
    write(tmp_path, {"prompt": LONG}, {"prompt": f"{LONG.upper()}!"}, {"prompt": "Why?"}, {"prompt": "why"})
    made, summary = gathered(world, tmp_path, "near")
    [rejected] = made.rejected
    assert (made.conversations, rejected.reason, rejected.records) == (3, "near_duplicate", 1)
    digest, _, represented_by = rejected.first[0].partition(": of ")
    assert represented_by.removesuffix(", similarity 1.00") < digest
    assert summary == "3 conversations (0 duplicates, 1 rejected, 25.0%)"
    kept, _ = gathered(world, tmp_path, "all", near=0)
    assert (kept.conversations, list(kept.rejected)) == (4, [])


def test_without_near_duplicates_the_content_is_that_of_a_recipe_that_looks_for_none(
    world: Simulation, tmp_path: Path
) -> None:
    write(tmp_path, {"prompt": LONG}, {"prompt": "Why?"}, {"prompt": "Why not?"})
    digests = {gathered(world, tmp_path, f"near{near}", near=near)[0].result.content_digest for near in (0, 0.7, 0.8)}
    assert len(digests) == 1


def test_a_similarity_that_bands_do_not_find_is_refused_by_its_key(world: Simulation, tmp_path: Path) -> None:
    write(tmp_path, {"prompt": LONG})
    recipe = {"stages": {"prompts": {"kind": "conversations", "path": "asked.jsonl", "near": 0.5}}}
    request = CheckRecipeRequest(recipe=json.dumps(recipe), directory=str(tmp_path), all_problems=True)
    pipeline = PipelineServiceStub(world.channel("pipeline"))
    [problem] = world.insist(lambda: pipeline.CheckRecipe(request)).problems
    assert (problem.key, problem.seen) == ("stages.prompts.near", "0.5")
    assert "a similarity from 0.7 to 1" in problem.expected


def test_licences_are_counted_in_the_summary_and_others_are_rejected(world: Simulation, tmp_path: Path) -> None:
    write(tmp_path, {"prompt": "Why?", "license": "MIT"}, {"prompt": "When?"})
    made, summary = gathered(world, tmp_path, "licensed", licences=["mit"])
    assert [(each.reason, each.records) for each in made.rejected] == [("no_licence", 1)]
    assert summary == "1 conversation (0 duplicates, 1 rejected, 50.0%); licences: mit 1"
