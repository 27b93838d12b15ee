"""Stages that judge answers: a campaign, and the preferences that are fitted to its judgements."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Method, Principal
from tutti.chassis.work.work import publish, put_named
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_CLOSED,
    CAMPAIGN_STATE_FAILED,
    CAMPAIGN_STATE_OPEN,
    CAMPAIGN_STATE_PUBLISHED,
    CROWD_PEOPLE,
    CROWD_SIMULATED,
)
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING, Artifact
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, ListRecipeFilesRequest, Run
from tutti.contracts.sampling.v1 import Sample
from tutti.pipeline.world_test import CALL, World
from tutti.records.canonical import JsonValue, bytes_digest
from tutti.records.manifest import Kind, Manifest

TEXT = """
name: judging
stages:
  judged:
    kind: campaign
    from: {answers: [samples/one, samples/other]}
    guideline: guideline.md
    axes: [helpful, brief]
    rules: {helpful: "Which one helps more?"}
    crowd: {simulated: crowd.yaml, annotators: 20}
    judgements: 120
    overlap: {least: 1, most: 3}
    deadline_hours: 1.5
  preferences: {kind: preferences, from: judged}
"""
GUIDELINE, CROWD = "Prefer the shorter one.\n", "utility: letters@1\nkinds: []\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    (tmp_path / "guideline.md").write_text(GUIDELINE)
    (tmp_path / "crowd.yaml").write_text(CROWD)
    for name in ("samples/one", "samples/other"):
        made = publish(world.blobs, "sampling", Manifest(Kind.SAMPLE, {"of": name}, (), "test"), data_bytes=0)
        world.sampling.made[name] = Sample(name=name, state=STATE_DONE, result=made)
    return world


def create(world: World, text: str = TEXT, *overrides: str) -> Run:
    request = CreateRunRequest(recipe=text, overrides=overrides, directory=str(world.folder))
    run = world.api.CreateRun(request, CALL).run
    world.settle()
    found: Run = run
    return found


def lines(world: World, kind: Kind, words: str, count: int) -> Artifact:
    """A manifest of so many lines, which is published."""
    data = words.encode()
    key = put_named(world.blobs, "annotation/lines", data, ".jsonl")
    found: dict[str, JsonValue] = {"blob": key, "bytes": len(data), "bytes_digest": bytes_digest(data), "count": count}
    return publish(
        world.blobs, "annotation", Manifest(kind, {"lines": found, "pairs": found}, (), "test"), data_bytes=0
    )


def judged(world: World, words: str = "judgements") -> Any:
    """The campaign publishes its judgements."""
    return world.campaigns.end(CAMPAIGN_STATE_PUBLISHED, "", lines(world, Kind.JUDGEMENTS, words, 1))


def fitted(world: World) -> None:
    spec = list(world.preferences.made.values())[-1].spec
    world.preferences.end(STATE_DONE, "", lines(world, Kind.PREFERENCES, f"of {spec.content_digest}", 1))


def test_a_run_waits_for_its_judgements_and_says_how_many_it_has(world: World) -> None:
    name = create(world).name
    (campaign,) = world.campaigns.made.values()
    spec = campaign.spec
    assert [each.sample for each in spec.answers] == ["samples/one", "samples/other"]
    assert all(each.content_digest.startswith("blake3:") for each in spec.answers)
    assert (spec.guideline, spec.simulated.crowd, spec.simulated.annotators) == (GUIDELINE, CROWD, 20)
    assert [(axis.name, axis.rule) for axis in spec.axes] == [("helpful", "Which one helps more?"), ("brief", "")]
    assert (spec.crowd, spec.judgements, spec.deadline_seconds) == (CROWD_SIMULATED, 120, 5400)
    for state, reason in ((CAMPAIGN_STATE_OPEN, "40 of 120 judgements"), (CAMPAIGN_STATE_CLOSED, "")):
        world.campaigns.end(state, reason)
        assert (world.run(name).stages[0].state, world.run(name).stages[0].reason) == (STATE_RUNNING, reason)
    judged(world)
    fitted(world)
    run = world.run(name)
    assert run.state == STATE_DONE
    (preferences,) = world.preferences.made.values()
    assert preferences.spec.campaign == campaign.name
    assert preferences.spec.content_digest == run.stages[0].content_digest
    assert [stage.reused for stage in world.run(create(world).name).stages] == [True, True]


def test_models_are_compared_by_the_judgements_of_a_campaign(world: World) -> None:
    compared = (
        "  compared: {kind: comparison, from: {baseline: samples/one, candidate: samples/other, judged: judged}}\n"
    )
    create(world, TEXT + compared)
    campaign = judged(world)
    (asked,) = (each.spec for each in world.comparisons.made.values())
    assert (asked.judged.campaign, asked.judged.content_digest) == (campaign.name, campaign.result.content_digest)
    assert (asked.crowd, asked.annotators, asked.overlap) == ("", 0, 0)
    for changed in (
        compared.replace(", judged: judged", ""),
        compared.replace("}}", "}, crowd: {simulated: crowd.yaml}}"),
    ):
        request = CheckRecipeRequest(recipe=TEXT + changed, directory=str(world.folder), all_problems=True)
        problems = {each.key: each.expected for each in world.api.CheckRecipe(request, CALL).problems}
        assert "one that judges" in problems["stages.compared.crowd"]


def test_people_judge_unless_a_crowd_is_given(world: World) -> None:
    create(world, TEXT.replace("    crowd: {simulated: crowd.yaml, annotators: 20}\n", ""))
    assert list(world.campaigns.made.values())[-1].spec.crowd == CROWD_PEOPLE


SHARED = TEXT.replace("crowd: {simulated: crowd.yaml, annotators: 20}", "crowd: {annotators: 20}")


def test_a_crowd_beside_the_stages_is_that_of_each_that_names_none(world: World) -> None:
    (world.folder / "other.yaml").write_text("utility: sentences@1\n")
    create(world, SHARED, "crowd=other.yaml")
    spec = list(world.campaigns.made.values())[-1].spec
    assert (spec.simulated.crowd, spec.simulated.annotators) == ("utility: sentences@1\n", 20)
    own = TEXT.replace("crowd.yaml", "other.yaml")
    digests = [
        world.api.CheckRecipe(CheckRecipeRequest(recipe=text, directory=str(world.folder)), CALL).recipe_digest
        for text in (f"{SHARED}crowd: other.yaml\n", own)
    ]
    assert digests[0] == digests[1] != ""


@pytest.mark.parametrize(
    ("text", "crowd", "key", "words"),
    [
        (SHARED, "crowd.yaml", "crowd", "YAML with `utility` and `kinds`"),  # it has no kinds
        (SHARED, "guideline.md", "crowd", "YAML with `utility` and `kinds`"),
        (SHARED, "nowhere.yaml", "crowd", "a file of text"),
        (SHARED, "", "stages.judged.crowd.simulated", "the key `crowd` beside `stages`"),
        (TEXT, "crowd.yaml", "crowd", "a stage that takes it"),
    ],
)
def test_a_crowd_that_cannot_be_shared_is_refused(world: World, text: str, crowd: str, key: str, words: str) -> None:
    request = CheckRecipeRequest(recipe=text, directory=str(world.folder), all_problems=True)
    request.overrides.append(f"crowd={crowd}")
    problems = {each.key: each.expected for each in world.api.CheckRecipe(request, CALL).problems}
    assert words in problems.get(key, "nothing"), problems


def test_a_campaign_that_fails_fails_its_run(world: World) -> None:
    name = create(world).name
    world.campaigns.end(CAMPAIGN_STATE_FAILED, "no pair can be compared")
    run = world.run(name)
    assert (run.state, run.stages[0].reason) == (STATE_FAILED, "no pair can be compared")


def test_after_a_retraction_the_next_run_fits_the_newest_judgements_alone(world: World) -> None:
    create(world)
    judged(world)
    fitted(world)
    judged(world, "judgements without one annotator")
    name = create(world).name
    fitted(world)
    stages = world.run(name).stages
    assert [stage.reused for stage in stages] == [True, False]
    assert len(world.campaigns.made) == 1
    assert [each.spec.content_digest for each in world.preferences.made.values()][-1] == stages[0].content_digest


def test_a_run_is_the_same_wherever_its_files_are(world: World) -> None:
    written = TEXT.replace("guideline.md", "|\n      Prefer the shorter one.")
    recipes = [
        world.api.CheckRecipe(CheckRecipeRequest(recipe=text, directory=str(world.folder)), CALL).recipe_digest
        for text in (TEXT, written)
    ]
    assert recipes[0] == recipes[1]
    (world.folder / "guideline.md").write_text("Prefer the longer one.\n")
    changed = CheckRecipeRequest(recipe=TEXT, directory=str(world.folder))
    assert world.api.CheckRecipe(changed, CALL).recipe_digest != recipes[0]


@pytest.mark.parametrize(
    ("old", "new", "key", "words"),
    [
        ("guideline.md", "nowhere.md", "stages.judged.guideline", "a file of text, or the text itself"),
        ("crowd.yaml", "nowhere.yaml", "stages.judged.crowd.simulated", "a file of text"),
        ("axes: [helpful, brief]", "axes: [brief]", "stages.judged.rules", "one of the axes: brief"),
        ("axes: [helpful, brief]", "axes: []", "stages.judged.axes", ""),
        ("from: judged", "from: samples/one", "stages.preferences.from", "role"),
        ("{kind: preferences,", "{kind: preferences, fit: majority,", "stages.preferences.fit", "reliability@1"),
        ("judgements: 120", "judgements: many", "stages.judged.judgements", ""),
    ],
)
def test_what_is_wrong_is_named_by_its_key(world: World, old: str, new: str, key: str, words: str) -> None:
    request = CheckRecipeRequest(recipe=TEXT.replace(old, new), directory=str(world.folder), all_problems=True)
    problems = {each.key: each.expected for each in world.api.CheckRecipe(request, CALL).problems}
    assert words in problems.get(key, "nothing"), problems


def test_a_file_that_is_too_long_or_no_text_is_refused(world: World) -> None:
    for data in (b"x" * (17 << 10), b"\xff\xfe"):
        (world.folder / "guideline.md").write_bytes(data)
        with pytest.raises(InvalidField, match=r"stages\.judged\.guideline"):
            create(world)


@pytest.mark.parametrize("name", ["../guideline.md", "link.md"])
def test_a_file_outside_the_roots_is_refused_wherever_its_name_leads(world: World, name: str) -> None:
    allowed = world.folder / "allowed"
    allowed.mkdir()
    (allowed / "link.md").symlink_to(world.folder / "guideline.md")
    (allowed / "crowd.yaml").write_text(CROWD)
    world.settings["roots"] = [str(allowed)]
    world.start()
    text = TEXT.replace("guideline.md", name)
    request = CreateRunRequest(recipe=text, directory=str(allowed), validate_only=True)
    with pytest.raises(InvalidField, match=rf"judged\.guideline: expected a file under {allowed} \(pipeline\.roots\)"):
        world.api.CreateRun(request, CALL)
    (allowed / "link.md").unlink()
    (allowed / "link.md").write_text(GUIDELINE)
    request.recipe = TEXT.replace("guideline.md", "link.md")
    assert "Prefer the shorter one." in world.api.CreateRun(request, CALL).run.spec.recipe


def test_a_pipe_is_refused_without_waiting_for_its_writer(world: World) -> None:
    (world.folder / "guideline.md").unlink()
    os.mkfifo(world.folder / "guideline.md")
    with pytest.raises(InvalidField, match=r"stages\.judged\.guideline: .*not a regular file"):
        create(world)


def test_a_caller_who_may_name_no_paths_sends_the_files(world: World) -> None:
    engineer = Principal("users/u4k2m7qx9c", frozenset({Role.ENGINEER}), "tenants/default", Method.TOKEN)
    call = replace(CALL, role=Role.ENGINEER, user=engineer)
    request = CheckRecipeRequest(recipe=TEXT, directory=str(world.folder))
    with pytest.raises(InvalidField, match=r"simulated: .*pipeline\.roots"):
        world.api.CheckRecipe(request, call)
    named = world.api.ListRecipeFiles(ListRecipeFilesRequest(recipe=TEXT), call).files
    assert [(each.key, each.path) for each in named] == [
        ("stages.judged.crowd.simulated", "crowd.yaml"),
        ("stages.judged.guideline", "guideline.md"),
    ]
    for each in named:
        request.files[each.path] = (world.folder / each.path).read_text()
    sent = world.api.CheckRecipe(request, call)
    assert (
        sent.recipe_digest
        == world.api.CheckRecipe(CheckRecipeRequest(recipe=TEXT, directory=str(world.folder)), CALL).recipe_digest
    )


def test_files_that_are_sent_are_small_and_few(world: World) -> None:
    long = CheckRecipeRequest(recipe=TEXT, directory=str(world.folder), files={"guideline.md": "x" * (17 << 10)})
    with pytest.raises(InvalidField, match=r"stages\.judged\.guideline"):
        world.api.CheckRecipe(long, CALL)
    many = CheckRecipeRequest(recipe=TEXT, directory=str(world.folder), files={f"{n}.md": "" for n in range(65)})
    with pytest.raises(InvalidField, match="files"):
        world.api.CheckRecipe(many, CALL)
