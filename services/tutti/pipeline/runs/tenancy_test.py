"""Runs of another tenant: they are seen, and what was made of the work of its people is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import Method, Principal
from tutti.contracts.annotation.v1 import CAMPAIGN_STATE_FAILED
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, CancelRequest, GetRequest, ListRequest
from tutti.contracts.lineage.v1 import ReachedRun
from tutti.contracts.pipeline.v1 import (
    CheckRecipeRequest,
    CreateRunRequest,
    ListRunsResponse,
    PlanRerunsRequest,
    Run,
    UpdateRunRequest,
)
from tutti.pipeline.pages.pages import RunPages
from tutti.pipeline.runs.tables import Tables
from tutti.pipeline.stages import campaigns_test
from tutti.pipeline.stages.campaigns_test import GUIDELINE, fitted, judged
from tutti.pipeline.world_test import CALL, World
from tutti.web.pages import Visit

world = campaigns_test.world
OWN = Principal("users/ada", frozenset({Role.ENGINEER}), "tenants/a", Method.TOKEN)
OTHER = Principal("users/eve", frozenset({Role.ENGINEER}), "tenants/b", Method.TOKEN)


@pytest.fixture(autouse=True)
def roots(world: World) -> None:
    """Engineers with tokens of their own name no files but those below the folders of the operator."""
    world.settings["roots"] = [str(world.folder)]
    world.start()


@contextmanager
def of(who: Principal) -> Iterator[None]:
    with caused_by(Cause(principal=who)):
        yield


def create(world: World, who: Principal, **changes: str) -> Run:
    given = {"recipe": campaigns_test.TEXT, "directory": str(world.folder)} | changes
    request = CreateRunRequest(**given)  # type: ignore[arg-type]
    with of(who):
        run = world.api.CreateRun(request, replace(CALL, user=who)).run
    world.settle()
    found: Run = run
    return found


def seen(world: World, name: str, who: Principal) -> Run:
    found: Run = world.api.GetRun(GetRequest(name=name), replace(CALL, user=who))
    return found


def listed(world: World, who: Principal) -> list[Run]:
    page: ListRunsResponse = world.api.ListRuns(ListRequest(), replace(CALL, user=who))
    return list(page.runs)


def test_a_run_is_seen_without_the_keys_and_words_of_its_people(world: World) -> None:
    name = create(world, OWN).name
    judged(world)
    fitted(world)
    own = seen(world, name, OWN)
    assert own.state == STATE_DONE
    assert all(stage.manifest_key and stage.content_digest and stage.summary for stage in own.stages[1:])
    for other in (seen(world, name, OTHER), *listed(world, OTHER)):
        assert [(each.name, each.state, each.resource) for each in other.stages] == [
            (each.name, each.state, each.resource) for each in own.stages
        ]
        text = str(other)
        for stage in own.stages:
            for word in (stage.manifest_key, stage.content_digest, stage.reuse_key, stage.derivation, stage.summary):
                assert not word or word not in text
        assert GUIDELINE.strip() not in text
    assert listed(world, OWN)[0].spec.recipe == own.spec.recipe != ""


def test_the_reason_of_a_campaign_that_failed_is_not_told_to_others(world: World) -> None:
    name = create(world, OWN).name
    world.campaigns.end(CAMPAIGN_STATE_FAILED, "a private reason")
    assert "a private reason" in seen(world, name, OWN).reason
    other = seen(world, name, OTHER)
    assert other.state == STATE_FAILED
    assert "private" not in str(other)
    pages = RunPages(world.host, Tables(world.host.metadata))
    assert "private" not in str(pages.runs(Visit(OTHER)).view)
    assert "private" in str(pages.runs(Visit(OWN)).view)


def test_the_recipe_of_another_tenant_is_not_run_again(world: World) -> None:
    name = create(world, OWN).name
    for ask in (
        lambda: create(world, OTHER, recipe="", again=name),
        lambda: world.api.CheckRecipe(CheckRecipeRequest(again=name), replace(CALL, user=OTHER)),
    ):
        with pytest.raises(NotFound):
            ask()
    create(world, OWN, recipe="", again=name)


def test_a_plan_of_reruns_has_the_runs_alone_whose_recipes_the_caller_sees(world: World) -> None:
    name = create(world, OWN).name
    request = PlanRerunsRequest(runs=[ReachedRun(run=name, kept=1)])
    (planned,) = world.api.PlanReruns(request, replace(CALL, user=OWN)).reruns
    assert (planned.run, planned.needed) == (name, True)
    assert list(world.api.PlanReruns(request, replace(CALL, user=OTHER)).reruns) == []


def test_the_same_request_of_another_tenant_tells_no_more(world: World) -> None:
    name = create(world, OWN, name="runs/one").name
    judged(world)
    digest = seen(world, name, OWN).stages[0].content_digest
    assert digest in str(create(world, OWN, name="runs/one"))
    assert digest not in str(create(world, OTHER, name="runs/one"))
    cancelled = world.api.CancelRun(CancelRequest(name=name, validate_only=True), replace(CALL, user=OTHER))
    assert digest not in str(cancelled)


def test_the_note_of_a_run_over_judgements_of_a_tenant_is_of_this_tenant(world: World) -> None:
    name = create(world, OWN).name
    note = UpdateRunRequest(name=name, update_mask=FieldMask(paths=["note"]), note="Mia judges fast", add_tags=["a"])
    world.api.UpdateRun(note, replace(CALL, user=OWN))
    assert seen(world, name, OWN).labels.note
    for other in (seen(world, name, OTHER), *listed(world, OTHER)):
        assert (other.labels.note, list(other.labels.tags)) == ("", ["a"])
    with pytest.raises(NotFound):
        world.api.UpdateRun(UpdateRunRequest(name=name, add_tags=["b"]), replace(CALL, user=OTHER))
    assert list(seen(world, name, OWN).labels.tags) == ["a"]


def test_neither_a_run_nor_a_stage_of_another_tenant_is_reused(world: World) -> None:
    first = create(world, OWN).name
    assert create(world, OTHER).name != first
    own, other = list(world.campaigns.made)
    assert own != other


def test_each_tenant_reuses_its_own_stages(world: World) -> None:
    for who in (OWN, OTHER):
        name = create(world, who).name
        judged(world)
        fitted(world)
        assert [stage.reused for stage in seen(world, name, who).stages] == [False, False]
    for who in (OWN, OTHER):
        assert [stage.reused for stage in seen(world, create(world, who).name, who).stages] == [True, True]
