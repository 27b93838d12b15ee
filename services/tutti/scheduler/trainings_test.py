"""Trainings as messages: the same training in both spellings, and a contract that covers every field."""

import dataclasses
from dataclasses import replace
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import Training as WireTraining
from tutti.contracts.scheduler.v1 import RANK_ROLE_ACTOR, RANK_ROLE_ROLLOUT, JobSpec, RankGroup
from tutti.model.programs.dpo import DpoParameters
from tutti.model.spec import RopeScaling, StepSpec
from tutti.model.training import Initial, RoleModel, Training, WeightedDataset
from tutti.scheduler.trainings import completed, of_wire, part_of, to_wire
from tutti.scheduler.world_test import training

OTHER = "blake3:" + "e" * 64


def mixed() -> Training:
    plain = training()
    return replace(plain, mixture=(WeightedDataset(plain.dataset, 2), WeightedDataset(OTHER, 1)))


def begun() -> Training:
    return replace(training(), initial=Initial("checkpoints/a/0/5", OTHER))


def consulting() -> Training:
    """A training over conversations, beside two other models."""
    models = (RoleModel("reference", "checkpoints/a/0/5", OTHER), RoleModel("reward", "checkpoints/b/0/5", OTHER))
    parameters = DpoParameters(held_out=0.1, beta=0.2)
    made = replace(training(), tokenizer=OTHER, template=OTHER, part="train", models=models)
    return replace(made, program="dpo", program_parameters=parameters)


def shaped() -> Training:
    """A training of a model with all that came later than the first models."""
    plain = training()
    scaling = RopeScaling.of("yarn", 4, 32)
    return replace(plain, model=replace(plain.model, head_dim=32, qkv_bias=True, rope_scaling=scaling))


@pytest.mark.parametrize("made", [training(), mixed(), begun(), consulting(), shaped()])
def test_a_training_comes_back_from_its_message_with_the_same_name(made: Training) -> None:
    again = of_wire(WireTraining.FromString(to_wire(made).SerializeToString()))
    assert (again, again.digest()) == (made, made.digest())


def test_a_field_that_is_not_set_has_its_default_and_zero_is_not_unset() -> None:
    message = to_wire(replace(training(), validate_every=0, audit_every=0))
    message.step.ClearField("leaves")
    message.ClearField("audit_every")
    read = of_wire(message)
    assert (read.step.leaves, read.audit_every, read.validate_every) == (StepSpec().leaves, 10, 0)
    message.audit_every = 0
    assert of_wire(message).audit_every == 0


def parts(kind: type[Any]) -> list[type[Any]]:
    """The records in a record, at any depth."""
    found = [part for field in dataclasses.fields(kind) if (part := part_of(kind, field.name))]
    return [each for part in found for each in (part, *parts(part))]


PARTS = parts(Training)


@pytest.mark.parametrize("kind", [Training, *PARTS], ids=lambda kind: kind.__name__)
def test_the_message_has_every_field_and_tells_a_default_from_unset(kind: type[Any]) -> None:
    messages = WireTraining.DESCRIPTOR.file.message_types_by_name
    wire = messages[kind.__name__].fields_by_name
    fields = {field.name: field for field in dataclasses.fields(kind)}
    assert set(wire) == set(fields)
    for name, field in fields.items():
        if wire[name].message_type is None:
            assert wire[name].has_presence == (field.default is not dataclasses.MISSING), name


def test_a_request_may_spell_its_training_either_way_but_not_two_trainings() -> None:
    made, other = training(), training(steps=40)
    typed = completed(JobSpec(typed_training=to_wire(made)))
    assert typed == completed(JobSpec(training=made.to_json()))
    assert (typed.training, of_wire(typed.typed_training)) == (made.to_json(), made)
    with pytest.raises(InvalidField, match="typed_training"):
        completed(JobSpec(training=made.to_json(), typed_training=to_wire(other)))


def test_a_job_has_one_group_of_actors_that_run_its_program_and_others_are_refused() -> None:
    made = training()
    (group,) = completed(JobSpec(training=made.to_json())).groups
    assert (group.role, group.program) == (RANK_ROLE_ACTOR, "pretrain")
    actors, rollouts = RankGroup(role=RANK_ROLE_ACTOR, program="pretrain"), RankGroup(role=RANK_ROLE_ROLLOUT)
    other = RankGroup(role=RANK_ROLE_ACTOR, program="ppo")
    for groups in ([actors, rollouts], [actors, actors], [rollouts], [other]):
        with pytest.raises(InvalidField, match="one group of actors that run pretrain"):
            completed(JobSpec(training=made.to_json(), groups=groups))
