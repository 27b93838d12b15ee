"""A policy trained by agents: killed inside of an iteration and resumed, it makes the same states and experience."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests import talks
from tests.trainer.agent_test import commit

from tutti.contracts.scheduler.v1 import RANK_EVENT_FINISHED, STOP_RULE_CONSTANT_REWARDS, Assignment, PolicyStop
from tutti.corpus.conversations.experience import Experience
from tutti.corpus.conversations.template import CHAT_1
from tutti.model.programs.grpo import RewardFunction
from tutti.model.training import Training
from tutti.records.manifest import Kind

Wait = Callable[..., None]
STEPS = 16


def prepared(stage: Any, program: str = "grpo", **changes: Any) -> tuple[Training, Callable[..., Assignment]]:
    """A training over prompts in the stage's store, and what makes its assignments."""
    base = talks.base(stage.blobs)
    key, digest = talks.publish(stage.blobs, Kind.CONVERSATIONS, talks.demonstrations())
    stage.blobs.put_if_absent(talks.TOKENIZER_KEY, talks.TOKENIZER.artefact)
    if program == "ppo":
        known: dict[str, Any] = {"tokenizer": talks.TOKENIZER.version, "template": CHAT_1.digest}
        critic = talks.base(stage.blobs, replace(talks.MODEL, scalar_head=True), "reward", **known)
        training = talks.ppo(digest, base, critic, steps=STEPS, **changes)
    else:
        training = talks.grpo(digest, base, steps=STEPS, **changes)

    def assignment(**more: Any) -> Assignment:
        found: Assignment = stage.assignment(training, tokenizer_key=talks.TOKENIZER_KEY, **more)
        found.dataset_manifest_key, found.dataset_digest = key, digest
        return found

    return training, assignment


@pytest.mark.parametrize(("program", "line"), [("grpo", 1), ("ppo", 0)])
def test_a_gang_that_loses_a_rank_inside_of_an_iteration_makes_the_same_states(
    stage: Any, wait: Wait, program: str, line: int
) -> None:
    """Also in another line, whose first experience is of the policy where it left the former one."""
    plane = stage.plane
    training, assignment = prepared(stage, program, functions=(RewardFunction("regex", "[a-z]"),))
    agent = stage.agent()
    plane.assign("a", assignment(epoch=1))
    wait(lambda: plane.events(RANK_EVENT_FINISHED) or plane.losses)
    assert not plane.losses
    wait(lambda: len(plane.experiences) == STEPS // 2)
    told = {each.iteration: each.digest for each in plane.experiences}
    plane.assign("a")
    wait(lambda: not agent.agent.attempts)

    plane.progress.clear()
    plane.assign("a", assignment(epoch=2, ranks=(0, 1), dp=2))
    wait(lambda: {(2, 2, 0), (2, 2, 1)} <= set(plane.reports()) and plane.last_step > 2)
    os.kill(agent.pids()[1], signal.SIGKILL)
    wait(lambda: plane.losses)
    assert "rank 1 was killed by SIGKILL" in plane.losses[0].cause

    middle = [report for (step, epoch, _), report in plane.reports().items() if (step, epoch) == (2, 2)]
    body = commit(stage, middle, training)
    resumed = assignment(
        epoch=3,
        line=line,
        resume_manifest_key=body.manifest_key,
        resume_digest=body.state_digest,
        resume_checkpoint=body.name,
    )
    plane.assign("a", resumed)
    wait(lambda: len(plane.events(RANK_EVENT_FINISHED)) > 1 or len(plane.losses) > 1)
    wait(lambda: plane.digests(3).get(STEPS))
    assert plane.digests(3)[STEPS] == plane.digests(1)[STEPS]
    wait(lambda: len({each.iteration for each in plane.experiences if each.iteration}) == STEPS // 2 - 1)
    assert {each.digest for each in plane.experiences if each.iteration == 5} == {told[5]}
    found = plane.experiences[0]
    experience = Experience.decode(stage.blobs.get(found.key), expected=found.digest)
    assert (experience.iteration, experience.step, len(experience.rollouts)) == (0, 0, 32)
    assert found.checkpoint == ""
    names = {each.iteration: set[str]() for each in plane.experiences}
    for each in plane.experiences:
        names[each.iteration].add(each.checkpoint)
    assert names[1] == {"checkpoints/tiny/0/2"}
    assert names[3] == {"checkpoints/tiny/0/6", f"checkpoints/tiny/{line}/6"}
    wait(lambda: not list((stage.folder / "node a").rglob("*.experience")))  # sampling knows them


def test_workers_of_their_own_make_the_same_states_and_a_lost_one_is_named(stage: Any, wait: Wait) -> None:
    """An attempt that lost one, killed or stopped, ends; the next has others."""
    plane, ranks = stage.plane, (0, 1, 2)
    _, assignment = prepared(stage, "ppo", functions=(RewardFunction("regex", "[a-z]"),))
    agent = stage.agent(slots=3)
    plane.assign("a", assignment(epoch=1))
    wait(lambda: plane.events(RANK_EVENT_FINISHED) or plane.losses)
    wait(lambda: plane.digests(1).get(STEPS))
    for epoch, sent, words in (
        (2, signal.SIGKILL, "rank 2 was killed by SIGKILL"),
        (3, signal.SIGSTOP, "rank 2 has not answered for"),
    ):
        plane.progress.clear()
        plane.assign("a", assignment(epoch=epoch, ranks=ranks, rollouts=2))
        wait(lambda: plane.last_step > 1)
        os.kill(agent.pids()[2], sent)
        wait(lambda epoch=epoch: len(plane.losses) == epoch - 1)
        assert plane.losses[-1].rank == 2
        assert words in plane.losses[-1].cause
    assert "rank 0 is in step" in plane.losses[-1].cause
    plane.assign("a", assignment(epoch=4, ranks=ranks, rollouts=2))
    wait(lambda: {each.rank for each in plane.events(RANK_EVENT_FINISHED) if each.epoch == 4} == set(ranks))
    wait(lambda: plane.digests(4).get(STEPS))
    assert plane.digests(4)[STEPS] == plane.digests(1)[STEPS]
    assert len({(each.iteration, each.digest) for each in plane.experiences}) == STEPS // 2


def test_a_node_may_have_workers_alone(stage: Any, wait: Wait) -> None:
    plane, (_, assignment) = stage.plane, prepared(stage, functions=(RewardFunction("regex", "[a-z]"),))
    for node, ranks in (("a", (0,)), ("b", (1, 2))):
        stage.agent(node)
        plane.assign(node, assignment(ranks=ranks, rollouts=2))
    wait(lambda: plane.losses or {each.rank for each in plane.events(RANK_EVENT_FINISHED)} == {0, 1, 2})
    assert not plane.losses
    assert {each.node for each in plane.progress} == {"nodes/a"}


def test_workers_for_a_program_without_rollouts_are_refused(stage: Any, wait: Wait) -> None:
    stage.agent()
    stage.plane.assign("a", stage.assignment(stage.training(), ranks=(0, 1), rollouts=1))
    wait(lambda: stage.plane.losses)
    assert "pretrain generates no rollouts; expected no rollout workers" in stage.plane.losses[0].cause


def test_an_attempt_that_learns_nothing_says_why(stage: Any, wait: Wait) -> None:
    _, assignment = prepared(stage, functions=(RewardFunction("ended"),), tokens=1)
    stage.agent()
    stage.plane.assign("a", assignment(epoch=1))
    wait(lambda: stage.plane.losses)
    lost = stage.plane.losses[0]
    assert "iteration 0: constant rewards: each of the 32 rollouts got 0 (POLICY_STOPPED)" in lost.cause
    assert lost.final
    assert lost.stop == PolicyStop(rule=STOP_RULE_CONSTANT_REWARDS, seen=1, limit=2)
