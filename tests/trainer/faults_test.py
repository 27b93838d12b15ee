"""What dies is noticed, named and cleaned up: ranks, I/O children, fork servers, agents."""

import dataclasses
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.trainer.agent_test import in_process

from tutti.contracts.scheduler.v1 import (
    RANK_EVENT_DISTURBED,
    RANK_EVENT_FINISHED,
    RANK_EVENT_LISTENING,
    RANK_EVENT_READY,
)
from tutti.model.results import SkipCause
from tutti.platform.processes import process_id
from tutti.trainer.agent.forkclient import ForkClient
from tutti.trainer.io.buffers import buffer_folder, remove

Wait = Callable[..., None]
LONG = 1_000_000


def running_gang(stage: Any, wait: Wait, **settings: object) -> Any:
    """One agent with two ranks that step for long."""
    agent = stage.agent(**settings)
    training = stage.training(steps=LONG, checkpoint_every=LONG)
    stage.plane.assign("a", stage.assignment(training, ranks=(0, 1), dp=2))
    wait(lambda: stage.plane.last_step > 3 or stage.plane.losses)
    assert not stage.plane.losses
    return agent


def test_a_killed_rank_is_reported_at_once_and_the_others_end(stage: Any, wait: Wait) -> None:
    agent = running_gang(stage, wait)
    ranks = {rank: process_id(pid) for rank, pid in agent.pids().items()}
    os.kill(ranks[1].pid, signal.SIGKILL)
    wait(lambda: stage.plane.losses)
    wait(lambda: not ranks[0].alive())
    assert [loss.rank for loss in stage.plane.losses] == [1]
    assert "rank 1 was killed by SIGKILL" in stage.plane.losses[0].cause
    stage.plane.assign("a", stage.assignment(stage.training(), epoch=2))
    wait(lambda: stage.plane.events(RANK_EVENT_FINISHED))
    assert [(each.job, each.epoch) for each in stage.plane.released] == [("jobs/tiny", 1)]


def test_the_heartbeats_of_a_rank_say_that_it_computes(stage: Any, wait: Wait) -> None:
    """This is how a long step is told from one that hangs."""
    agent = running_gang(stage, wait)
    places = agent.agent.attempts[0]._local_ranks
    seen = {rank: place.work for rank, place in places.items()}
    wait(lambda: all(place.work > seen[rank] for rank, place in places.items()))


def test_an_agent_that_let_go_of_a_job_is_not_woken_by_its_dead_ranks(stage: Any, wait: Wait) -> None:
    for epoch in range(1, 6):  # whether the end of a rank is heard before it is gone, or never, is a matter of luck
        assignment = stage.assignment(
            stage.training(steps=LONG, checkpoint_every=LONG), epoch=epoch, ranks=(0, 1), dp=2
        )
        agent = stage.agents[0] if stage.agents else stage.agent()
        stage.plane.assign("a", assignment)
        wait(lambda: len(agent.pids()) == 2)  # noqa: B023
        stage.plane.assign("a")
        wait(lambda: not agent.agent.attempts)  # noqa: B023
    listened = set(agent.launcher.filenos()) - set(agent.launcher.server.filenos())
    assert listened == set()


def test_a_stopped_rank_is_named_with_what_the_others_were_doing(stage: Any, wait: Wait) -> None:
    agent = running_gang(stage, wait)
    ranks = {rank: process_id(pid) for rank, pid in agent.pids().items()}
    os.kill(ranks[0].pid, signal.SIGSTOP)
    wait(lambda: stage.plane.losses)
    wait(lambda: not ranks[0].alive() and not ranks[1].alive())
    loss = stage.plane.losses[0]
    assert loss.rank == 0
    assert "rank 0 has not answered for" in loss.cause
    assert "rank 1 is in step" in loss.cause
    assert "all_to_all" in loss.cause


def test_a_rank_of_a_killed_agent_ends_by_itself_inside_a_collective(tmp_path: Path, wait: Wait) -> None:
    """The agent is a process of its own here; one rank waits for a peer that never steps."""
    command = [sys.executable, "-m", "tests.trainer.lonely_agent", str(tmp_path)]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert agent.stdout is not None
    ranks = [process_id(int(pid)) for pid in agent.stdout.readline().split()]
    assert len(ranks) == 2
    assert all(rank.alive() for rank in ranks)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    children = [process_id(child.pid) for child in psutil.Process(agent.pid).children(recursive=True)]
    agent.kill()
    agent.wait()
    wait(lambda: not ranks[0].alive())
    os.kill(ranks[1].pid, signal.SIGCONT)
    wait(lambda: not any(child.alive() for child in children))
    remove(buffer_folder(tmp_path / "node a"))


def test_a_starting_agent_kills_what_a_former_one_left(stage: Any, wait: Wait, tmp_path: Path) -> None:
    agent = running_gang(stage, wait, own_server=True)
    ranks = [process_id(pid) for pid in agent.pids().values()]
    for rank in ranks:
        os.kill(rank.pid, signal.SIGSTOP)
    agent._halt.set()
    agent.thread.join()
    agent.launcher.server.server.kill()
    agent.launcher.server.server.wait()
    agent.io._child.kill()
    assert all(rank.alive() for rank in ranks)
    stage.agents.clear()

    stage.agent()
    assert not any(rank.alive() for rank in ranks)
    wait(lambda: stage.plane.losses)
    assert {loss.cause for loss in stage.plane.losses} == {"the agent of nodes/a was restarted"}


def test_a_killed_io_child_loses_neither_the_attempt_nor_a_snapshot(stage: Any, wait: Wait) -> None:
    agent = stage.agent()
    training = stage.training(steps=60, checkpoint_every=2)
    stage.plane.assign("a", stage.assignment(training))
    for count in (2, 8, 14):
        wait(lambda count=count: len(stage.plane.reports()) >= count)
        agent.io._child.kill()
    wait(lambda: stage.plane.events(RANK_EVENT_FINISHED) or stage.plane.losses)
    assert not stage.plane.losses
    wait(lambda: {step for step, _, _ in stage.plane.reports()} == set(range(2, 61, 2)))
    assert agent.io.restarts == 3
    told = [each.cause for each in stage.plane.events(RANK_EVENT_DISTURBED)]
    assert len(told) == 3
    assert all(each.endswith("ended (SIGKILL): another took over") for each in told)


def test_an_io_child_that_cannot_write_waits_and_the_same_one_stores_the_undisturbed_states(
    stage: Any, wait: Wait, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    agent = stage.agent()
    training = stage.training(steps=10)
    stage.plane.assign("a", stage.assignment(training))
    wait(lambda: stage.plane.events(RANK_EVENT_READY))
    child = agent.io._child.pid
    soft, hard = resource.prlimit(child, resource.RLIMIT_FSIZE)
    resource.prlimit(child, resource.RLIMIT_FSIZE, (0, hard))
    wait(lambda: "the snapshot of tiny.0." in caplog.text or agent.io.restarts)
    resource.prlimit(child, resource.RLIMIT_FSIZE, (soft, hard))
    wait(lambda: len(stage.plane.shards) == 5)
    assert (agent.io._child.pid, agent.io.restarts) == (child, 0)
    assert stage.plane.digests(1) == in_process(stage, training, tmp_path / "cache")


def test_a_stopped_io_child_is_replaced(stage: Any, wait: Wait) -> None:
    agent = stage.agent()
    os.kill(agent.io._child.pid, signal.SIGSTOP)
    wait(lambda: agent.io.restarts == 1)
    stage.plane.assign("a", stage.assignment(stage.training(steps=2)))
    wait(lambda: stage.plane.shards)


def test_a_killed_fork_server_is_replaced_and_its_ranks_go_on(stage: Any, wait: Wait) -> None:
    agent = running_gang(stage, wait, own_server=True)
    agent.launcher.server.server.kill()
    seen = agent.agent.attempts[0].steps[0]
    wait(lambda: agent.agent.attempts[0].steps[0] > seen + 20)
    assert not stage.plane.losses
    stage.plane.assign("a", stage.assignment(stage.training(), epoch=2))
    wait(lambda: stage.plane.events(RANK_EVENT_FINISHED))


def test_a_stopped_fork_server_is_replaced_when_it_does_not_answer(stage: Any, wait: Wait) -> None:
    with closing(ForkClient(silence=2.0)) as stage.server:
        stage.agent()
        stage.plane.assign("a", stage.assignment(stage.training()))
        wait(lambda: stage.plane.events(RANK_EVENT_FINISHED))
        stopped = process_id(stage.server.server.pid)
        stopped.send(signal.SIGSTOP)
        stage.plane.assign("a", stage.assignment(stage.training(), epoch=2))
        wait(lambda: stage.plane.losses)
        assert not stopped.alive()
        stage.plane.assign("a", stage.assignment(stage.training(), epoch=3))
        wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == 2)


def test_a_missing_rank_is_named_at_the_rendezvous_deadline(stage: Any, wait: Wait) -> None:
    stage.agent(rendezvous=1.0, staging=0.0)
    stage.plane.assign("a", stage.assignment(stage.training(), ranks=(0,), dp=3))
    wait(lambda: stage.plane.losses)
    assert "ranks 1, 2 of 3 did not come to the rendezvous of epoch 1" in stage.plane.losses[0].cause


def test_a_rank_waits_beyond_the_rendezvous_deadline_for_a_node_that_still_stages(stage: Any, wait: Wait) -> None:
    stage.agent("a", rendezvous=0.2, staging=60.0)
    stage.plane.assign("a", stage.assignment(stage.training(), ranks=(0,), dp=2))
    wait(lambda: stage.plane.events(RANK_EVENT_LISTENING))
    listening = stage.plane.events(RANK_EVENT_LISTENING)[0].address
    stage.agent("b", rendezvous=0.2, staging=60.0)  # starting it takes longer than the rendezvous may
    stage.plane.assign("b", stage.assignment(stage.training(), ranks=(1,), dp=2, rendezvous=listening))
    wait(lambda: len(stage.plane.events(RANK_EVENT_FINISHED)) == 2)
    assert not stage.plane.losses


def test_a_draining_agent_ends_its_ranks_and_says_so(stage: Any, wait: Wait) -> None:
    agent = running_gang(stage, wait)
    ranks = [process_id(pid) for pid in agent.pids().values()]
    told = len(stage.plane.ranks)
    agent.drain()
    wait(lambda: not agent.thread.is_alive())
    assert not any(rank.alive() for rank in ranks)
    assert [each.epoch for each in stage.plane.released] == [1]
    assert stage.plane.left == {"nodes/a": told}
    assert not stage.plane.losses


def test_a_draining_agent_does_not_wait_for_a_scheduler_that_is_away(stage: Any, wait: Wait) -> None:
    agent = running_gang(stage, wait, drain=0.5)
    ranks = [process_id(pid) for pid in agent.pids().values()]
    stage.plane.away = True
    agent.drain()
    wait(lambda: not agent.thread.is_alive())
    assert not any(rank.alive() for rank in ranks)


def test_snapshots_wait_in_the_spool_while_the_blob_store_is_away(stage: Any, wait: Wait) -> None:
    """A full spool makes the ranks wait; a restarted child stores what the spool holds."""
    agent = stage.agent()
    training = stage.training(steps=40, checkpoint_every=2)
    stage.hide_shards()
    stage.plane.assign("a", stage.assignment(training))
    spool = agent.state / "spool"
    wait(lambda: len(list(spool.glob("*.json"))) == 4)
    wait(lambda: agent.agent.attempts[0].steps[0] == 14)
    agent.io._child.kill()
    wait(lambda: agent.io.restarts == 1)
    assert len(list(spool.glob("*.json"))) == 4
    assert not stage.plane.shards
    stage.show_shards()
    wait(lambda: {step for step, _, _ in stage.plane.reports()} == set(range(2, 41, 2)))
    assert not stage.plane.losses


def test_a_training_that_skips_every_step_ends_with_the_cause(stage: Any, wait: Wait) -> None:
    stage.agent()
    training = stage.training(steps=40, checkpoint_every=5)
    too_fast = dataclasses.replace(training.optimizer, peak_rate=1e30, warmup_steps=0)
    stage.plane.assign("a", stage.assignment(dataclasses.replace(training, optimizer=too_fast)))
    wait(lambda: stage.plane.losses)
    assert f"{SkipCause.NOT_FINITE} in" in stage.plane.losses[0].cause
    assert stage.plane.losses[0].step < 20
    assert stage.plane.losses[0].final
    wait(lambda: stage.plane.progress[-1].skipped_in_a_row > 1)
    newest = stage.plane.progress[-1]
    assert newest.skipped == newest.skipped_in_a_row == newest.step - 1
    assert math.isfinite(newest.loss)


def test_a_device_that_is_not_there_is_named(stage: Any, wait: Wait) -> None:
    """Ranks of GPUs are spawned, not forked."""
    agent = stage.agent(own_server=True)
    stage.plane.assign("a", stage.assignment(stage.training(), devices=["cuda:63"]))
    wait(lambda: stage.plane.losses)
    assert "cuda" in stage.plane.losses[0].cause.lower()
    assert agent.launcher.server.server is None
    wait(lambda: agent.agent.attempts[0].phase.name == "GONE")
