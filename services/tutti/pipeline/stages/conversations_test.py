"""Stages of conversations, and references to the parts of their split."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.ingest.v1 import Conversations
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run
from tutti.contracts.sampling.v1 import Sample, SampleSpec
from tutti.pipeline.definitions.definition import Role, StageContext, StageDef
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import read
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.sections import IndexSection
from tutti.pipeline.world_test import CALL, World

TEXT = """
name: prompts
stages:
  prompts: {kind: conversations, path: asked, split: {train: 0.75, final: 0.25}}
  first: {kind: reader, from: prompts.train}
  second: {kind: reader, from: prompts.final}
  whole: {kind: reader, from: prompts}
"""


class Reader(StageDef):
    """A stage that reads conversations and asks for a sample that names what it read."""

    name = "reader"
    work = Sample
    roles = (Role("prompts", Conversations),)
    section = IndexSection
    version = "reader-1"

    def request(self, asked: StageContext) -> SampleSpec:
        prompts = asked.one("prompts")
        return SampleSpec(checkpoint="checkpoints/a/0/1", prompts=[f"{prompts.content_digest} {prompts.part}"])

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        return {}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setitem(definitions(), "reader", Reader())
    return World(tmp_path)


def create(world: World, text: str = TEXT) -> Run:
    run = world.api.CreateRun(CreateRunRequest(recipe=text, directory=str(world.folder)), CALL).run
    world.settle()
    found: Run = run
    return found


def test_prompts_are_read_and_split_and_reused(world: World) -> None:
    name = create(world, TEXT.partition("  first")[0]).name
    (asked,) = world.conversations.made.values()
    assert [(each.name, each.share) for each in asked.spec.split] == [("final", 0.25), ("train", 0.75)]
    assert asked.spec.input_digest.startswith("blake3:")
    assert asked.spec.near == 0.8
    world.finish("conversations")
    run = world.run(name)
    assert (run.state, run.stages[0].summary.startswith("1 conversation")) == (STATE_DONE, True)
    assert world.run(create(world, TEXT.partition("  first")[0]).name).stages[0].reused
    world.page("b.txt", "another", "asked")
    assert not world.run(create(world, TEXT.partition("  first")[0]).name).stages[0].reused


def test_a_part_reaches_the_stage_that_reads_it_and_its_key(world: World) -> None:
    name = create(world).name
    world.finish("conversations")
    keys, parts = {}, {}
    for number in range(3):
        run = world.run(name)
        stage = run.stages[number + 1]
        keys[stage.name], parts[stage.name] = stage.reuse_key, [each.part for each in stage.inputs]
        work = list(world.sampling.made.values())[-1]
        digest, _, part = work.spec.prompts[0].partition(" ")
        assert (digest, [part]) == (run.stages[0].content_digest, parts[stage.name])
        world.train.made[work.spec.checkpoint] = type("Made", (), {"state_digest": "x"})()
        world.finish("sample")
    assert parts == {"first": ["train"], "second": ["final"], "whole": [""]}
    assert len(set(keys.values())) == 3
    assert world.run(name).state == STATE_DONE


def test_a_part_of_an_earlier_set_is_read_by_its_name(world: World) -> None:
    create(world, TEXT.partition("  first")[0])
    world.finish("conversations")
    (made,) = world.conversations.made
    create(world, f"stages: {{first: {{kind: reader, from: {made}.final}}}}")
    assert list(world.sampling.made.values())[-1].spec.prompts[0].endswith(" final")
    with pytest.raises(InvalidField, match=r"stages\.first\.from\.prompts: .*one of its parts: final, train"):
        create(world, f"stages: {{first: {{kind: reader, from: {made}.other}}}}")


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("prompts.final", "prompts.other", "stages.second.from.prompts", "one of prompts.final, prompts.train"),
        ("prompts.final", "prompts.", "stages.second.from.prompts", "one of prompts.final, prompts.train"),
        (", split: {train: 0.75, final: 0.25}", "", "stages.first.from.prompts", "prompts: it has no parts"),
        ("final: 0.25", "final: 0.2", "stages.prompts.split", "shares that add up to 1"),
        ("final: 0.25", "Final: 0.25", "stages.prompts.split", "lower-case letters"),
        ("path: asked", "path: nowhere", "stages.prompts.path", "a folder"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(world: World, old: str, new: str, key: str, words: str) -> None:
    request = CheckRecipeRequest(recipe=TEXT.replace(old, new), directory=str(world.folder), all_problems=True)
    problems = {each.key: each.expected for each in world.api.CheckRecipe(request, CALL).problems}
    assert words in problems.get(key, ""), problems


def test_the_threshold_of_near_duplicates_is_of_the_key_where_it_is_not_zero() -> None:
    alone = TEXT.partition("  first")[0]
    nodes = [graph.node_of(read(alone, [f"stages.prompts.near={near}"]), "prompts") for near in (0, 0.8, 0.9)]
    parameters = [node.stage.parameters(node.asked({}, {})) for node in nodes]
    split = {"split": {"train": 0.75, "final": 0.25}, "seed": 0}
    assert parameters == [split, {**split, "near": 0.8}, {**split, "near": 0.9}]


def test_licences_are_of_the_key_where_the_recipe_names_some() -> None:
    names = ["stages.prompts.licence=MIT", "stages.prompts.licences=MIT,mit,CC0-1.0"]
    node = graph.node_of(read(TEXT.partition("  first")[0], names), "prompts")
    found = node.stage.parameters(node.asked({}, {}))
    assert (found["licence"], found["licences"]) == ("mit", ["cc0-1.0", "mit"])


def test_a_recipe_with_parts_reads_as_itself(world: World) -> None:
    recipe = read(TEXT)
    assert read(recipe.canonical()) == recipe
    assert '"prompts":"prompts.train"' in recipe.canonical()
