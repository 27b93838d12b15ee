"""Experience: reported once, read in any order, removed by the retention policy."""

from collections.abc import Iterator

import numpy as np
import pytest
from tests.policies import ADMITS, epoch_of, report_of

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import AlreadyExists, InvalidField, Refused
from tutti.chassis.identity.auth import Role
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.sampling.v1 import (
    EXPERIENCE_STATE_PRUNED,
    EXPERIENCE_STATE_STORED,
    ROLLOUT_ORDER_BEST,
    ROLLOUT_ORDER_KL,
    ROLLOUT_ORDER_LONGEST,
    ROLLOUT_ORDER_UNSPECIFIED,
    ROLLOUT_ORDER_WORST,
    ExperienceCommitted,
    ReadExperienceRequest,
    ReportExperienceRequest,
    RolloutOrder,
)
from tutti.contracts.sampling.v1 import Experience as Told
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub
from tutti.corpus.conversations.conversations import Message
from tutti.corpus.conversations.conversations import Role as Author
from tutti.corpus.conversations.experience import Experience, Prompt, Rollout
from tutti.sampling.service import build
from tutti.simulation import Simulation

QUESTION = "a-secret-question"


def experience(iteration: int) -> Experience:
    rng = np.random.default_rng(iteration)
    rollouts = [
        Rollout(
            number=4 * iteration + n,
            prompt=n // 2,
            tokens=tuple(range(1, length + 1)),
            old=rng.normal(-1, 0.1, length).astype(np.float32),
            reference=np.full(length, -1 - n, np.float32),
            text=f"text {n}",
            stop="end",
            reward=reward,
            advantage=0.0,
            kept=n < 2,
        )
        for n, (length, reward) in enumerate([(3, 0.5), (1, 1.0), (4, -1.0), (2, 0.0)])
    ]
    prompts = [Prompt((Message(Author.USER, f"{QUESTION} {n}"),), (5, n)) for n in range(2)]
    return Experience(iteration, 2 * iteration, f"blake3:{'a' * 64}", prompts, rollouts)


BUILDS = {**ADMITS, "sampling": build}
NODE = "nodes/a"


@pytest.fixture(params=range(2))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    with Simulation(request.param, builds=BUILDS) as simulation:
        open_epoch(simulation)
        yield simulation


def open_epoch(world: Simulation) -> None:
    committer = CommitterServiceStub(world.channel("committer", Role.SERVICE))
    world.insist(lambda: committer.OpenEpoch(epoch_of("jobs/j", 1, NODE)))


def stored(world: Simulation, iteration: int, **changes: object) -> ReportExperienceRequest:
    found = experience(iteration)
    request = report_of("jobs/j", found, node=NODE, epoch=1)
    request.checkpoint = "checkpoints/j/0/2"
    world.world.blobs.put_if_absent(request.key, found.encode())
    request.MergeFrom(ReportExperienceRequest(**changes))  # type: ignore[arg-type]
    return request


def test_it_is_recorded_once_and_read_in_any_order(world: Simulation) -> None:
    agent = ExperienceServiceStub(world.channel("sampling", Role.AGENT))
    stub = ExperienceServiceStub(world.channel("sampling"))
    for _ in range(2):
        told = world.insist(lambda: agent.ReportExperience(stored(world, 3)))
    assert (told.name, told.state, told.rollouts, told.groups_dropped) == (
        "experiences/j/0/3",
        EXPERIENCE_STATE_STORED,
        4,
        1,
    )
    assert (told.reward_mean, told.answer_tokens, told.step) == (0.125, 2.5, 6)
    assert list(world.insist(lambda: stub.ListExperiences(ListRequest(filter="job=jobs/j"))).experiences) == [told]

    def numbers(order: RolloutOrder.ValueType, count: int = 0) -> list[int]:
        request = ReadExperienceRequest(name=told.name, order=order, count=count)
        return [each.number - 12 for each in world.insist(lambda: stub.ReadExperience(request)).rollouts]

    assert numbers(ROLLOUT_ORDER_UNSPECIFIED) == [0, 1, 2, 3]
    assert numbers(ROLLOUT_ORDER_BEST) == [1, 0, 3, 2]
    assert numbers(ROLLOUT_ORDER_WORST, 2) == [2, 3]
    assert numbers(ROLLOUT_ORDER_LONGEST, 1) == [2]
    assert numbers(ROLLOUT_ORDER_KL) == sorted(range(4), key=lambda n: -experience(3).rollouts[n].kl)
    world.settle()
    world.examine()
    assert world.events[Told.DESCRIPTOR.full_name] == world.events[ExperienceCommitted.DESCRIPTOR.full_name] == 1
    assert QUESTION not in repr(told)


def test_another_or_a_damaged_one_is_refused(world: Simulation) -> None:
    agent = ExperienceServiceStub(world.channel("sampling", Role.AGENT))
    world.insist(lambda: agent.ReportExperience(stored(world, 3)))
    with pytest.raises(AlreadyExists):
        world.insist(lambda: agent.ReportExperience(stored(world, 3, checkpoint="checkpoints/j/0/4")))
    other = stored(world, 4)
    moved = other.key.replace("/4/", "/5/")
    world.world.blobs.put_if_absent(moved, experience(4).encode())
    for changes, words in (
        ({"digest": experience(3).digest}, "is damaged"),
        ({"iteration": 5, "key": moved}, "is of iteration 4; expected 5"),
        ({"key": f"trainer/experiences/j/0/4/gone={NODE.removeprefix('nodes/')}"}, "is not in the store"),
    ):
        wrong = ReportExperienceRequest()
        wrong.CopyFrom(other)
        wrong.MergeFrom(ReportExperienceRequest(**changes))
        with pytest.raises(Refused, match=words) as caught:
            world.insist(lambda: agent.ReportExperience(wrong))  # noqa: B023
        assert caught.value.reason == "EXPERIENCE_REFUSED"
    with pytest.raises(InvalidField, match=r"^job: expected"):
        world.insist(lambda: agent.ReportExperience(stored(world, 4, job="runs/x")))


def test_the_retention_policy_removes_rollouts_and_keeps_figures() -> None:
    settings = {"sampling": {"experience_iterations": 2}}
    with Simulation(0, builds=BUILDS, settings=settings) as world:
        open_epoch(world)
        agent = ExperienceServiceStub(world.channel("sampling", Role.AGENT))
        stub = ExperienceServiceStub(world.channel("sampling"))
        for iteration in range(4):
            world.insist(lambda: agent.ReportExperience(stored(world, iteration)))  # noqa: B023
        world.settle()
        found = world.insist(lambda: stub.ListExperiences(ListRequest())).experiences
        assert [each.state for each in found] == [EXPERIENCE_STATE_PRUNED] * 2 + [EXPERIENCE_STATE_STORED] * 2
        assert found[0].reward_mean == 0.125
        with pytest.raises(BlobMissing):
            world.world.blobs.get(stored_key(0))
        with pytest.raises(Refused, match="removed by the retention policy"):
            world.insist(lambda: stub.ReadExperience(ReadExperienceRequest(name=found[0].name)))
        assert world.insist(lambda: stub.GetExperience(GetRequest(name=found[0].name))) == found[0]


def stored_key(iteration: int) -> str:
    return report_of("jobs/j", experience(iteration), node=NODE, epoch=1).key
