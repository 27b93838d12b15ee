"""A training is recorded with all that it reads; without a mixture its name is what it always was."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tutti.model.programs.grpo import GrpoParameters
from tutti.model.spec import ModelSpec, OptimizerSpec, SpecError, StepSpec
from tutti.model.training import Initial, RoleModel, Training, WeightedDataset

OWN, OTHER = f"blake3:{'1' * 64}", f"blake3:{'2' * 64}"
TRAINING = Training(
    model=ModelSpec(vocabulary=320, width=64, layers=2, heads=4, kv_heads=2, hidden=192, context=32),
    optimizer=OptimizerSpec(peak_rate=1e-3, steps=10),
    step=StepSpec(leaves=2, rows=2),
    dataset=OWN,
    checkpoint_every=5,
)
STARTED = replace(TRAINING, initial=Initial("checkpoints/a/0/10", OTHER))
MIXED = replace(TRAINING, mixture=(WeightedDataset(OWN, 3), WeightedDataset(OTHER, 1)))


def test_a_training_comes_back_from_its_record_and_weights_are_part_of_its_name() -> None:
    for training in (TRAINING, MIXED, STARTED):
        assert Training.from_json(training.to_json()) == training
    assert not {"mixture", "initial"} & json.loads(TRAINING.to_json()).keys()
    assert TRAINING.digest() == "5fba598c94821abec796ec76920ce98687f5d2c7826b20c0aab5839dc0c09c2c"
    assert len({each.digest() for each in (TRAINING, MIXED, replace(MIXED), STARTED)}) == 3


def test_the_first_span_reads_every_dataset_by_its_weight() -> None:
    span = MIXED.first_span({OWN: 40, OTHER: 7})
    assert [(each.dataset_version, each.sequences, each.weight) for each in span.datasets] == [
        (OWN, 40, 3),
        (OTHER, 7, 1),
    ]
    assert span.starts_at(4) == (12, 4)
    (alone,) = TRAINING.first_span({OWN: 40}).datasets
    assert (alone.dataset_version, alone.weight) == (OWN, 1)
    assert (TRAINING.datasets, MIXED.datasets) == ((OWN,), (OWN, OTHER))


@pytest.mark.parametrize(
    "mixture",
    [
        [{"dataset": OWN, "weight": 1}],
        [{"dataset": OTHER, "weight": 1}, {"dataset": OWN, "weight": 1}],
        [{"dataset": OWN, "weight": 1}, {"dataset": OWN, "weight": 1}],
        [{"dataset": OWN, "weight": 1}, {"dataset": OTHER, "weight": 0}],
        [{"dataset": OWN, "weight": 1}, {"dataset": "another", "weight": 1}],
        [{"dataset": OWN, "weight": 65_536}, {"dataset": OTHER, "weight": 1}],
        [],
    ],
)
def test_a_mixture_that_cannot_be_read_is_refused(mixture: list[dict[str, Any]]) -> None:
    with pytest.raises(SpecError):
        Training.from_dict(TRAINING.to_dict() | {"mixture": mixture})


def test_models_are_named_by_role_in_order_each_once() -> None:
    reference = RoleModel("reference", "checkpoints/a/0/5", TRAINING.dataset)
    reward = RoleModel("reward", "checkpoints/b/0/5", TRAINING.dataset)
    made = replace(TRAINING, models=(reference, reward))
    assert Training.from_json(made.to_json()) == made
    assert made.model_of("reward") is reward
    for wrong in ((reward, reference), (reward, reward)):
        with pytest.raises(SpecError, match="expected them sorted, each once"):
            replace(TRAINING, models=wrong)
    with pytest.raises(SpecError, match="has no critic"):
        made.model_of("critic")


def test_rows_are_as_long_as_the_context_unless_a_shorter_length_is_given() -> None:
    short = replace(TRAINING, step=replace(TRAINING.step, length=24))
    assert (TRAINING.length, short.length) == (32, 24)
    assert Training.from_json(short.to_json()) == short
    assert short.digest() != TRAINING.digest()
    with pytest.raises(SpecError, match="length is 33; expected at most 32, the model's context"):
        replace(TRAINING, step=replace(TRAINING.step, length=33))


def test_a_program_without_parameters_takes_none() -> None:
    with pytest.raises(SpecError, match="pretrain has no parameters"):
        Training.from_dict(TRAINING.to_dict() | {"program_parameters": {"beta": 0.1}})


def test_the_steps_of_a_policy_train_on_the_rollouts_of_whole_iterations() -> None:
    assert not TRAINING.iterations(0, 10)
    settings = GrpoParameters(prompts=1, group=2, tokens=4, minibatches=2, epochs=2)
    policy = replace(TRAINING, program="grpo", program_parameters=settings)
    assert settings.updates == 4
    assert [list(policy.iterations(*steps)) for steps in ((0, 4), (4, 12), (12, 12))] == [[0], [1, 2], []]
