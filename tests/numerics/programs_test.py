"""Fine-tuning and reward learning: equal states on any number of ranks, and what each objective is."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import talks
from tests.numerics.gang import Group, Tensors, on_ranks, snapshot
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.staged import open_staged
from tutti.corpus.tokens.sampler import DatasetShare
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.results import Outcome, StepResult
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.figures import COUNTS
from tutti.records.manifest import Kind
from tutti.trainer.batches.staged import Staged
from tutti.trainer.metrics import Metrics
from tutti.trainer.programs import PROGRAMS
from tutti.trainer.rank.initial import initial_of


class World:
    """A blob store with a first checkpoint, demonstrations and preferences."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.blobs = folder, EmbeddedBlobs(folder / "blobs")
        self.base = talks.base(self.blobs)
        self.demonstrations = talks.publish(self.blobs, Kind.CONVERSATIONS, talks.demonstrations())
        self.preferences = talks.publish(self.blobs, Kind.PREFERENCES, talks.preferences())

    def training(self, program: str) -> Training:
        makers: dict[str, Callable[..., Training]] = {"sft": talks.sft, "reward": talks.reward, "dpo": talks.dpo}
        (_, digest) = self.demonstrations if program == "sft" else self.preferences
        return makers[program](digest, self.base)

    def staged(self, training: Training) -> tuple[Staged, Path]:
        key, _ = self.demonstrations if training.dataset == self.demonstrations[1] else self.preferences
        return talks.staged(self.blobs, self.folder / "cache", key, training)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    torch.set_num_threads(1)
    return World(tmp_path_factory.mktemp("world"))


Trained = tuple[Tensors, list[StepResult], list[Metrics], list[int]]


def started(training: Training, initial: Path, dp: int, rank: int, group: Group) -> RankStep:
    plan = Plan(Layout(training.model), Shape(dp), training.step.leaves)
    step = RankStep(
        training.model,
        training.optimizer,
        training.step,
        plan,
        rank=rank,
        epoch=1,
        group=group,
        audit_every=training.audit_every,
        objective=PROGRAMS[training.program].objective(training),
    )
    step.initialize(initial_of(open_staged(initial), plan.layout))
    return step


def trained(world: World, training: Training, dp: int, *, shift: int = 0) -> Trained:
    """The state after all steps, and of each step its result and what was measured. `shift` reads other samples."""
    staged, initial = world.staged(training)
    program = PROGRAMS[training.program]

    def work(rank: int, group: Group) -> Trained:
        me, data = started(training, initial, dp, rank, group), program.read(staged, training)
        ledger, results, metrics = data.first_ledger(), [], []
        if shift:
            (span,) = ledger.spans
            ledger = replace(ledger, spans=(replace(span, seed=span.seed + shift),))
        for step in range(1, training.steps + 1):
            data.prepare(me, step)
            results.append(me.run(step, data.leaves(ledger, step, me.leaves_needed(step))))
            decided = program.finish(me, data) if step == training.steps else {}
            measured = program.measure(me, data)
            assert measured is not None
            measured = replace(measured, named={**measured.named, **decided})
            metrics.append(measured)
        return snapshot(me), results, metrics, [len(me.plan.leaves_of(rank))]

    found = on_ranks(dp, work)
    whole = {key: data for part, *_ in found for key, data in part.items()}
    assert all(metrics == found[0][2] for _, _, metrics, _ in found)
    return whole, found[0][1], found[0][2], [count for *_, counts in found for count in counts]


def told(found: Trained) -> list[tuple[str, int]]:
    return [(result.loss.hex(), result.tokens) for result in found[1]]


@pytest.mark.parametrize("program", ["sft", "reward", "dpo"])
def test_the_state_is_the_same_on_1_to_4_ranks(world: World, program: str, capsys: pytest.CaptureFixture[str]) -> None:
    training = world.training(program)
    runs = {dp: trained(world, training, dp) for dp in (1, 2, 3, 4)}
    for dp, found in runs.items():
        assert (found[0], told(found), found[2]) == (runs[1][0], told(runs[1]), runs[1][2]), dp
    assert trained(world, training, 2, shift=1)[0] != runs[1][0]  # the control: other samples move it elsewhere
    with capsys.disabled():
        print(f"\n{program}: leaves per rank {', '.join(str(found[3]) for found in runs.values())}")


def test_fine_tuning_counts_the_tokens_of_answers_and_lowers_their_loss(world: World) -> None:
    _, results, metrics, _ = trained(world, world.training("sft"), 1)
    rows = talks.STEP.leaves * talks.STEP.rows
    assert {result.tokens for result in results} == {rows * 5}  # four letters and the end of each answer
    assert results[-1].loss < results[0].loss
    assert metrics[-1].nats / metrics[-1].tokens < metrics[0].nats / metrics[0].tokens


def test_a_reward_model_begins_undecided_and_learns_what_is_preferred(world: World) -> None:
    training = world.training("reward")
    longer = replace(training, optimizer=replace(training.optimizer, steps=25))
    _, results, metrics, _ = trained(world, longer, 2)
    weights = 2.0  # of a pair, on average
    assert results[0].tokens == talks.STEP.leaves * talks.STEP.rows // 2
    assert results[0].loss == pytest.approx(np.log(2) * weights, rel=0.2)
    assert metrics[-1].named["accuracy"] == 1.0
    assert metrics[-1].named["calibration_error"] < 0.3
    assert set(metrics[-1].named) == {"accuracy", "calibration_error", "temperature", *COUNTS}


def test_the_head_is_divided_by_a_temperature_after_the_last_step_alone(world: World) -> None:
    training = world.training("reward")
    staged, initial = world.staged(training)
    program, me = PROGRAMS["reward"], started(training, initial, 1, 0, None)
    data: Any = program.read(staged, training)
    for step in range(1, training.steps + 1):
        me.run(step, data.leaves(data.first_ledger(), step, me.leaves_needed(step)))
    before = {key: np.frombuffer(bytes(tensor), "<f4") for key, tensor in snapshot(me).items()}
    loss = program.measure(me, data)
    found = program.finish(me, data)["temperature"]
    assert found != 1.0
    units = {chunk.index: chunk.unit for chunk in me.plan.layout.chunks}
    for (chunk, kind), tensor in snapshot(me).items():
        scaled = (units[chunk], kind) == ("scalar", "parameter")
        factor = np.float32(1.0 / found) if scaled else np.float32(1.0)
        assert np.array_equal(np.frombuffer(bytes(tensor), "<f4"), before[chunk, kind] * factor)
    after = program.measure(me, data)
    assert loss is not None
    assert after is not None
    assert after.nats < loss.nats
    assert after.named["accuracy"] == loss.named["accuracy"]
    with pytest.raises(SpecError, match="the model has no unit valuer"):
        me.scale("valuer", 2.0)


def test_a_policy_begins_at_its_reference_to_the_bit_and_learns_what_is_preferred(world: World) -> None:
    training = world.training("dpo")
    staged, initial = world.staged(training)
    me, data = started(training, initial, 1, 0, None), PROGRAMS["dpo"].read(staged, training)
    data.prepare(me, 1)
    leaf: Any = data.leaves(data.first_ledger(), 1, [0])[0]
    tokens, documents = (torch.from_numpy(each).to(torch.int64) for each in (leaf.tokens, leaf.documents))
    now = me._gradients._transformer.log_probabilities(tokens, documents).view(leaf.valid.shape)
    assert np.array_equal(now.numpy(), leaf.reference)
    assert leaf.reference[leaf.valid].max() < 0
    _, _, metrics, _ = trained(world, replace(training, optimizer=replace(training.optimizer, steps=12)), 2)
    assert metrics[-1].nats < metrics[0].nats
    assert metrics[-1].named["accuracy"] > 0.8


@pytest.mark.parametrize("program", ["reward", "dpo"])
def test_preferences_that_no_score_can_satisfy_train_to_a_finite_state(
    world: World, tmp_path: Path, program: str
) -> None:
    """Every pair is there in both orders, and the first is better in both."""
    lines = talks.preferences(40)
    turned = [replace(each, answers=(each.answers[1], each.answers[0])) for each in lines]
    other = World(tmp_path)
    other.preferences = talks.publish(other.blobs, Kind.PREFERENCES, [*lines, *turned])
    state, results, metrics, _ = trained(other, other.training(program), 2)
    assert all(np.isfinite(result.loss) and result.outcome is Outcome.COMMITTED for result in results)
    assert all(np.isfinite(np.frombuffer(data, "<f4")).all() for data in state.values())
    assert 0 <= metrics[-1].named["accuracy"] <= 1


def test_a_head_begins_at_zero_and_leaves_the_parameters_as_they_were(world: World) -> None:
    training = world.training("reward")
    _, initial = world.staged(training)
    before = open_staged(initial)
    me = started(training, initial, 1, 0, None)
    layout = me.plan.layout
    assert np.array_equal(
        me.parameters[: before.body.layout.elements].numpy(),
        np.concatenate([before.read(chunk.index, "parameter") for chunk in before.body.layout.chunks]),
    )
    assert layout.units[-1].name == "scalar"
    assert not me.parameters[before.body.layout.elements :].any()


def test_what_an_objective_does_not_use_stays_as_it_was(world: World) -> None:
    training = replace(world.training("reward"), step=replace(talks.STEP, leaves=4))
    tensors, *_ = trained(world, training, 1)
    layout = Layout(training.model)
    _, initial = world.staged(training)
    before = open_staged(initial)
    output = [chunk for chunk in layout.chunks if chunk.unit == "output"]
    assert output
    for chunk in output:
        assert tensors[chunk.index, "parameter"] == before.read(chunk.index, "parameter").tobytes()
        assert not any(tensors[chunk.index, "first_moment"])


def test_the_ledger_tells_which_step_read_a_sample(world: World) -> None:
    training = world.training("reward")
    staged, _ = world.staged(training)
    data: Any = PROGRAMS["reward"].read(staged, training)
    ledger = data.first_ledger()
    (share,) = ledger.spans[0].datasets
    assert share == DatasetShare(training.dataset, len(data.train), 1, 0)
    readings = list(ledger.readings(training.dataset, 3, before_step=10))
    assert readings
    for each in readings:
        read = ledger.samples(each.step, each.leaf).samples.tolist()
        assert data.train[read[each.row]] is data.train[3]
