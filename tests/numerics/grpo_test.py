"""GRPO from what agents stage: conversations, a tokenizer, a reference and a reward model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import talks
from tests.numerics.gang import Group, Tensors, on_ranks, snapshot
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.staged import open_staged
from tutti.corpus.conversations.conversations import Conversation, Message, Role
from tutti.corpus.conversations.template import CHAT_1
from tutti.model.chunks import Layout
from tutti.model.plan import Plan, Shape
from tutti.model.programs.grpo import RewardFunction
from tutti.model.step import RankStep
from tutti.model.training import Training
from tutti.records.manifest import Kind
from tutti.trainer.failures import RankFailure
from tutti.trainer.policies.policydata import PolicyData
from tutti.trainer.programs import PROGRAMS
from tutti.trainer.rank.initial import initial_of

GRPO = PROGRAMS["grpo"]
KNOWN: dict[str, Any] = {"tokenizer": talks.TOKENIZER.version, "template": CHAT_1.digest}


class World:
    """A blob store with prompts, a first checkpoint, and a model with a scalar head."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.blobs = folder, EmbeddedBlobs(folder / "blobs")
        self.base = talks.base(self.blobs)
        scoring = replace(talks.MODEL, scalar_head=True)
        self.reward = talks.base(self.blobs, scoring, "reward", **KNOWN)

    def training(self, conversations: Sequence[Conversation], **changes: Any) -> tuple[str, Training]:
        key, digest = talks.publish(self.blobs, Kind.CONVERSATIONS, conversations)
        return key, talks.grpo(digest, self.base, **changes)

    def read(self, key: str, training: Training) -> PolicyData:
        staged, _ = talks.staged(self.blobs, self.folder / "cache", key, training)
        data: PolicyData = GRPO.read(staged, training)
        return data


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    torch.set_num_threads(1)
    return World(tmp_path_factory.mktemp("world"))


Trained = tuple[Tensors, list[str], list[int]]


def trained(world: World, key: str, training: Training, dp: int) -> Trained:
    """The state after all steps, the digests of the experiences, and the leaves of each rank."""
    staged, initial = talks.staged(world.blobs, world.folder / "cache", key, training)

    def work(rank: int, group: Group) -> Trained:
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
            objective=GRPO.objective(training),
        )
        me.initialize(initial_of(open_staged(initial), plan.layout))
        data, digests = GRPO.read(staged, training), list[str]()
        ledger = data.first_ledger()
        for step in range(1, training.steps + 1):
            data.prepare(me, step)
            if (experience := GRPO.experience(data)) is not None:
                digests.append(experience.digest)
            me.run(step, data.leaves(ledger, step, me.leaves_needed(step)))
            assert GRPO.measure(me, data) is not None
        return snapshot(me), digests, [len(plan.leaves_of(rank))]

    found = on_ranks(dp, work)
    leaves = [count for *_, counts in found for count in counts]
    return {key: data for part, *_ in found for key, data in part.items()}, found[0][1], leaves


def test_the_state_is_the_same_on_1_to_4_ranks_with_a_reward_model(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    functions = (RewardFunction("exact_match"), RewardFunction("length", "4", weight=0.5))
    key, training = world.training(talks.demonstrations(), reward=world.reward, functions=functions)
    one, *others = (trained(world, key, training, dp) for dp in (1, 2, 3, 4))
    for each in others:
        assert each[:2] == one[:2]
    assert len(one[1]) == 3
    with capsys.disabled():
        print(f"\ngrpo: leaves per rank {', '.join(str(leaves) for *_, leaves in (one, *others))}")


def test_the_answer_at_the_end_of_a_conversation_is_the_one_that_is_expected(world: World) -> None:
    key, training = world.training(talks.demonstrations())
    prompts = world.read(key, replace(training, part="train"))._prompts
    every = [each for each in talks.demonstrations() if each.part == "train"]
    assert [each.expected for each in prompts] == [each.messages[-1].content for each in every]
    assert [each.messages for each in prompts] == [each.messages[:-1] for each in every]
    ledger = world.read(key, training).first_ledger()
    assert {each.step for each in ledger.readings(training.dataset, 0, before_step=4)} in ({0, 1}, {2, 3}, set())


def long(count: int, letters: int) -> list[Conversation]:
    return [Conversation((Message(Role.USER, "abcdefgh"[k % 8] * (letters + k)),)) for k in range(count)]


def test_prompts_that_fill_the_context_are_left_out_or_refused(world: World) -> None:
    key, training = world.training([*long(3, talks.CONTEXT), *talks.demonstrations(30)])
    assert world.read(key, training).note == "3 of 33 prompts fill a row of 24 tokens and were left out"
    key, training = world.training(long(9, talks.CONTEXT))
    with pytest.raises(RankFailure, match="9 of 9 prompts fill a row of 24 tokens; expected shorter ones"):
        world.read(key, training)
    key, training = world.training(long(7, 1))
    with pytest.raises(RankFailure, match="7 prompts; expected at least 8, as many as an iteration takes"):
        world.read(key, training)


def narrower(world: World) -> Training:
    other = talks.base(world.blobs, replace(talks.MODEL, vocabulary=talks.MODEL.vocabulary + 4), "other")
    training = world.training(talks.demonstrations())[1]
    return replace(training, models=talks.grpo(training.dataset, other).models)


def judged_by_another(world: World) -> Training:
    """A reward model that learned from preferences with another tokenizer."""
    model = replace(talks.MODEL, vocabulary=talks.MODEL.vocabulary + 4, scalar_head=True)
    return world.training(talks.demonstrations(), reward=talks.base(world.blobs, model, "judge"))[1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            narrower,
            r"the reference checkpoints/other/0/1 has a vocabulary of \d+ tokens; expected \d+, that of the policy",
        ),
        (
            judged_by_another,
            "the reward model checkpoints/judge/0/1: the tokenizer is none, .* that goes back to the same tokenizer",
        ),
        (
            lambda world: world.training(talks.demonstrations(), reward=world.base)[1],
            "the reward model checkpoints/base/0/1: a scalar head is none, expected True",
        ),
        (
            lambda world: world.training(talks.demonstrations(), functions=())[1],
            "nothing gives a reward; expected a reward model or a function",
        ),
        (
            lambda world: world.training(talks.demonstrations(), functions=(RewardFunction("regex", "("),))[1],
            "is no regular expression",
        ),
    ],
)
def test_models_and_rewards_that_do_not_fit_are_refused(
    world: World, changed: Callable[[World], Training], words: str
) -> None:
    key, _ = world.training(talks.demonstrations())
    with pytest.raises(RankFailure, match=words):
        world.read(key, changed(world))
