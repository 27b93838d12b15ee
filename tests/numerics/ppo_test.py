"""PPO from what agents stage: a value model that begins as the critic, and one state for any number of ranks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests import talks
from tests.numerics.gang import Group, Tensors, on_ranks, snapshot
from tests.numerics.grpo_test import KNOWN, World, world
from tutti.checkpoints.digests import vector_digest
from tutti.checkpoints.staged import open_staged
from tutti.corpus.conversations.experience import Experience, Prompt
from tutti.inference.engine import Request, Weights
from tutti.model.chunks import VALUE, Layout
from tutti.model.exchange import Exchange
from tutti.model.plan import Plan, Shape
from tutti.model.results import Scalars
from tutti.model.spec import SpecError
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.trainer.failures import RankFailure
from tutti.trainer.policies.rolloutgroup import Split
from tutti.trainer.policies.rollouts import Rollouts
from tutti.trainer.policies.valued import ValuedRollouts
from tutti.trainer.programs import PROGRAMS, grpo
from tutti.trainer.rank.initial import initial_of
from tutti.trainer.rank.rendezvous import group_of_first

__all__ = ["world"]

PPO = PROGRAMS["ppo"]
STEPS = 4


class ByPlace(ValuedRollouts):
    """The control: draws are keyed by the place in a rank's task."""

    def _requests(self, owned: Sequence[int], prompts: Sequence[Prompt], first: int) -> list[Request]:
        made = super()._requests(owned, prompts, first)
        return [replace(request, number=place) for place, request in enumerate(made)]


def training_of(world: World, **changes: Any) -> tuple[str, Training]:
    key, made = world.training(talks.demonstrations())
    return key, talks.ppo(made.dataset, world.base, world.reward, steps=STEPS, **changes)


class Trained:
    """The state after some steps, its scalars, what was rolled out, and the number of leaves of each rank."""

    def __init__(
        self, state: Tensors, scalars: Scalars, experiences: list[Experience], leaves: Sequence[int] = ()
    ) -> None:
        self.state, self.scalars, self.experiences, self.leaves = state, scalars, experiences, leaves


def trained(
    world: World,
    key: str,
    training: Training,
    dp: int,
    *,
    until: int = STEPS,
    since: Trained | None = None,
    kind: type[Rollouts] = ValuedRollouts,
    workers: int = 0,
) -> Trained:
    """With `workers`, so many ranks beside those of `dp` answer the prompts."""
    staged, initial = talks.staged(world.blobs, world.folder / "cache", key, training)

    def work(rank: int, group: Group) -> Trained:
        data, experiences = grpo.read(staged, training, kind), list[Experience]()
        if workers:
            everybody = Exchange(group, rank=rank, ranks=dp + workers)
            group = group_of_first(dp)
            data.split(Split(everybody, Layout(training.model), actors=dp, device="cpu"))
            if rank >= dp:
                for step in range((since.scalars.step if since else 0) + 1, until + 1, data.updates):
                    data.answer(step, lambda: None)
                return Trained({}, Scalars(), [])
        plan = Plan(Layout(training.model), Shape(dp), training.step.leaves)
        me = RankStep(
            training.model,
            training.optimizer,
            training.step,
            plan,
            rank=rank,
            epoch=1,
            group=group,
            audit_every=2,
            objective=PPO.objective(training),
        )
        if since is None:
            me.initialize(initial_of(open_staged(initial), plan.layout, open_staged(staged.models["critic"])))
        else:
            me.load(lambda chunk, tensor: memoryview(since.state[chunk, tensor]), since.scalars)
        ledger = data.first_ledger()
        for step in range(me.scalars().step + 1, until + 1):
            data.prepare(me, step)
            if (experience := PPO.experience(data)) is not None:
                experiences.append(experience)
            me.run(step, data.leaves(ledger, step, me.leaves_needed(step)))
            assert PPO.measure(me, data) is not None
        return Trained(snapshot(me), me.scalars(), experiences, [len(plan.leaves_of(rank))])

    found = on_ranks(dp + workers, work)
    state = {chunk: data for part in found for chunk, data in part.state.items()}
    leaves = [count for part in found for count in part.leaves]
    return Trained(state, found[0].scalars, found[0].experiences, leaves)


@pytest.fixture(scope="module")
def alone(world: World) -> Trained:
    return trained(world, *training_of(world), 1)


@pytest.mark.parametrize("dp", [2, 3, 4])
def test_the_state_is_that_of_one_rank(
    world: World, alone: Trained, dp: int, capsys: pytest.CaptureFixture[str]
) -> None:
    together = trained(world, *training_of(world), dp)
    assert together.state == alone.state
    assert [each.digest for each in together.experiences] == [each.digest for each in alone.experiences]
    with capsys.disabled():
        print(f"\nppo: leaves per rank {alone.leaves}, {together.leaves}")


@pytest.mark.parametrize(("dp", "workers"), [(1, 1), (1, 3), (2, 2)])
def test_workers_of_their_own_give_the_state_of_ranks_that_answer_themselves(
    world: World, alone: Trained, dp: int, workers: int
) -> None:
    apart = trained(world, *training_of(world), dp, workers=workers)
    assert apart.state == alone.state
    assert [each.digest for each in apart.experiences] == [each.digest for each in alone.experiences]


def test_weights_of_another_digest_or_iteration_are_refused_by_a_worker() -> None:
    layout, other = Layout(talks.MODEL), f"blake3:{'1' * 64}"

    def work(rank: int, group: Group) -> list[str]:
        split = Split(Exchange(group, rank=rank, ranks=2), layout, actors=1, device="cpu")
        vector = torch.ones(layout.elements)
        digest = vector_digest(layout, vector.numpy())
        if rank == 0:
            for iteration in (0, 1, 3):
                split.give(iteration, Weights(digest, vector))
            vector[5] = 1.5
            split.give(4, Weights(other, vector))
            return []
        assert [split.take(iteration).digest for iteration in (0, 1)] == [digest, digest]
        told = []
        for iteration in (2, 4):
            with pytest.raises(RankFailure) as refused:
                split.take(iteration)
            told.append(str(refused.value))
        return told

    wrong, damaged = on_ranks(2, work)[1]
    assert wrong == "the actors are in iteration 3; expected 2, as in the checkpoint"
    assert damaged.startswith("the weights of iteration 4 are blake3:")
    assert damaged.endswith(f"told: {other}")


def test_control_draws_by_place_in_a_task_depend_on_the_ranks(world: World, alone: Trained) -> None:
    assert trained(world, *training_of(world), 2, kind=ByPlace).state != alone.state


def test_a_state_that_is_resumed_on_another_number_of_ranks_goes_on_as_if_nothing_had_been(
    world: World, alone: Trained
) -> None:
    key, training = training_of(world)
    half = trained(world, key, training, 2, until=STEPS // 2)
    assert trained(world, key, training, 1, since=half).state == alone.state
    assert trained(world, key, training, 1, since=half, workers=2).state == alone.state


def test_the_value_model_begins_as_the_critic_and_learns_beside_the_policy(world: World, alone: Trained) -> None:
    key, training = training_of(world)
    staged, initial = talks.staged(world.blobs, world.folder / "cache", key, training)
    layout, critic = Layout(training.model), open_staged(staged.models["critic"])
    read = initial_of(open_staged(initial), layout, critic)
    theirs = {each.name: each.index for each in critic.body.layout.chunks}
    values = [each for each in layout.chunks if each.unit.startswith(VALUE)]
    assert {each.unit for each in values} == {
        f"{VALUE}{unit}" for unit in ("embed", "block.0", "block.1", "norm", "scalar")
    }
    for chunk in values:
        before = critic.read(theirs[chunk.name.removeprefix(VALUE)], "parameter")
        assert np.array_equal(read(chunk.index, "parameter"), before)
        moved = np.frombuffer(alone.state[chunk.index, "parameter"], "<f4") - before
        assert np.abs(moved).max() > 0, chunk.name


def test_tokens_are_credited_by_whitened_advantages_that_an_experience_keeps(world: World, alone: Trained) -> None:
    first = alone.experiences[0]
    credits = [each.credit for each in first.rollouts]
    tokens = np.concatenate([each.advantages for each in credits if each is not None])
    assert len(tokens) == sum(len(each.tokens) for each in first.rollouts)
    assert abs(tokens.mean()) < 1e-5
    assert abs(tokens.std() - 1) < 1e-3
    again = Experience.decode(first.encode(), expected=first.digest)
    for one, other in zip(credits, (each.credit for each in again.rollouts), strict=True):
        assert one is not None
        assert other is not None
        for name in ("values", "advantages", "returns"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert again.summary()["value_error"] == first.summary()["value_error"] > 0


def test_a_state_without_a_value_model_or_a_critic_of_another_model_is_refused(world: World) -> None:
    key, training = training_of(world)
    staged, initial = talks.staged(world.blobs, world.folder / "cache", key, training)
    with pytest.raises(SpecError, match="ppo needs model"):
        PPO.read(staged, replace(training, model=talks.MODEL))
    wider = replace(talks.MODEL, hidden=96, scalar_head=True)
    other = talks.base(world.blobs, wider, "wider", **KNOWN)
    folder = talks.staged(world.blobs, world.folder / "cache", key, talks.grpo(training.dataset, other))[1]
    with pytest.raises(SpecError, match=r"with the critic checkpoints/wider/0/1 has another unit value\.block\.0"):
        initial_of(open_staged(initial), Layout(training.model), open_staged(folder))
