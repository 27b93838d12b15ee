"""The stage `ppo`: what it adds to grpo, and which critics it refuses."""

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE
from tutti.model.programs.ppo import PpoParameters
from tutti.model.training import Training
from tutti.pipeline.definitions.finetuning_test import finished, jobs, world
from tutti.pipeline.plans.reading import read
from tutti.pipeline.stages.grpo_test import TEXT as GRPO
from tutti.pipeline.world_test import World

__all__ = ["world"]

TEXT = f"{GRPO}  ppo: {{kind: ppo, like: grpo, group: 8, microbatches: 4, trace: 0.9}}\n"


def test_its_job_begins_the_value_model_with_the_reward_model(world: World) -> None:
    run, _ = finished(world, TEXT)
    assert run.state == STATE_DONE, run.reason
    results = {each.name: each for each in run.stages}
    training = Training.from_json(jobs(world, run)["ppo"].spec.training)
    assert (training.program, training.model.value_model, training.model.scalar_head) == ("ppo", True, False)
    parameters = training.program_parameters
    assert isinstance(parameters, PpoParameters)
    assert (parameters.group, parameters.trace, parameters.discount, parameters.kl) == (8, 0.9, 1.0, 0.05)
    assert [(each.role, each.state_digest) for each in training.models] == [
        ("critic", results["judge"].content_digest),
        ("reference", results["train"].content_digest),
        ("reward", results["judge"].content_digest),
    ]


def test_a_critic_is_needed_and_has_the_model_of_the_policy(world: World) -> None:
    alone = TEXT.replace(", reward: judge", "")
    with pytest.raises(InvalidField, match=r"ppo\.from\.critic.*a reward model that the value model begins with"):
        read(alone)
    other = TEXT.replace("like: grpo,", "like: grpo, from: {critic: train},")
    assert (
        "expected a checkpoint of a stage `reward` that began with the same model" in finished(world, other)[0].reason
    )


def test_a_checkpoint_with_a_value_model_goes_on_without_it(world: World) -> None:
    text = f"{TEXT}  again: {{kind: grpo, like: grpo, from: {{initial: ppo}}}}\n"
    run, _ = finished(world, text)
    assert run.state == STATE_DONE, run.reason
    assert not Training.from_json(jobs(world, run)["again"].spec.training).model.value_model
