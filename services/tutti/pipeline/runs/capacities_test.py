"""The machines against trainings that begin with a checkpoint, by the model of that checkpoint."""

from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.pipeline.v1 import CheckRecipeRequest
from tutti.contracts.scheduler.v1 import Node as Machine
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning_test import BASE, create, finished
from tutti.pipeline.world_test import CALL, World

STAGES = """stages:
  demos: {kind: conversations, path: asked}
  tuned: {kind: sft, from: {initial: train, demonstrations: demos}, steps: 12, rows: 4}
"""
MANY = "stages.tuned.rows=20000"
"""Rows whose activations take some gigabytes in the smallest of models."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.training = lambda job: Training.from_json(job.spec.training)
    made.artefact = of_bytes(*CHAT_1.tokens).artefact
    made.train.nodes = (Machine(name="nodes/a", slots=2, memory_bytes=1 << 30),)
    return made


def problems(world: World, text: str, *overrides: str) -> list[str]:
    request = CheckRecipeRequest(recipe=text, overrides=overrides, directory=str(world.folder), all_problems=True)
    return [each.key for each in world.api.CheckRecipe(request, CALL).problems]


def test_a_stage_that_tunes_the_model_of_the_recipe_needs_memory_for_it(world: World) -> None:
    assert problems(world, BASE + STAGES) == []
    assert problems(world, BASE + STAGES, MANY) == ["stages.tuned"]
    with pytest.raises(InvalidField, match="of memory"):
        create(world, BASE + STAGES, MANY)
    assert problems(world, BASE + STAGES, "train.rows=20000") == ["train"]


def test_a_stage_that_tunes_a_checkpoint_of_an_earlier_run_needs_memory_for_its_model(world: World) -> None:
    run, _ = finished(world, BASE)
    base = checkpoint_of(next(stage for stage in run.stages if stage.name == "train").manifest_key)
    alone = f"name: tuned\ntemplate: chat@1\n{STAGES}".replace("initial: train", f"initial: {base}")
    assert problems(world, alone) == []
    assert problems(world, alone, MANY) == ["stages.tuned"]
    with pytest.raises(InvalidField, match="of memory"):
        create(world, alone, MANY)
    assert problems(world, alone.replace(base, "checkpoints/gone/0/1"), MANY) == ["stages.tuned.from.initial"]
