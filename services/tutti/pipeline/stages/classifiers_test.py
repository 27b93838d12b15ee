"""Classifiers that a recipe names: recorded with their digest, and part of what ingest and filter are asked for."""

from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE, STATE_RUNNING, State
from tutti.contracts.ingest.v1 import Classifier
from tutti.pipeline.runs.transitions_test import again
from tutti.pipeline.world_test import World

DIGESTS = tuple(f"blake3:{letter * 64}" for letter in "ab")
WEB = "quality.classifiers=web"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    train(made, STATE_DONE, DIGESTS[0])
    return made


def train(world: World, state: State.ValueType, digest: str) -> None:
    world.ingest.classifiers["classifiers/web"] = Classifier(name="classifiers/web", state=state, model_digest=digest)


def test_a_name_becomes_a_digest_that_ingest_and_filter_are_asked_with(world: World) -> None:
    again(world, WEB)
    (read,), (chosen,) = world.ingest.made.values(), world.filters.made.values()
    assert list(read.spec.classifiers) == list(chosen.spec.classifiers) == [f"web@{DIGESTS[0]}"]
    assert f"web@{DIGESTS[0]}" in world.create(WEB).spec.recipe
    assert again(world, WEB) == []


def test_another_classifier_is_another_ingest_and_none_is_what_it_was(world: World) -> None:
    again(world)
    again(world, WEB)
    train(world, STATE_DONE, DIGESTS[1])
    assert again(world, WEB)[:2] == ["ingest", "filter"]
    assert again(world) == []


@pytest.mark.parametrize("reference", ["other", f"web@{DIGESTS[1]}"])
def test_what_is_not_there_is_refused_with_what_was_given(world: World, reference: str) -> None:
    with pytest.raises(InvalidField, match=r"quality\.classifiers") as refused:
        world.create(f"quality.classifiers={reference}")
    assert reference in str(refused.value)


def test_the_refusal_of_a_name_says_how_a_classifier_of_it_is_made(world: World) -> None:
    with pytest.raises(InvalidField, match="`tutti classifiers train RECIPE` trains one by a recipe with name: harm"):
        world.create("quality.classifiers=harm")


def test_one_that_is_not_trained_yet_is_refused(world: World) -> None:
    train(world, STATE_RUNNING, "")
    with pytest.raises(InvalidField, match="this one is running"):
        world.create(WEB)
