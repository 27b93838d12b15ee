"""One process of a platform dies or stands still while it trains: the job ends by itself, with the same states.

What happened can be read in the job's history. The ranks, the I/O child, the agent and the host are each killed; in
`make soak` they are stopped, too.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.faults.processes import family, until
from tests.scale import SOAK
from tutti.chassis.client import Problem, connect
from tutti.contracts.common.v1 import ListRequest

pytestmark = [pytest.mark.xdist_group("faults-parts"), pytest.mark.timeout(900)]
STEPS = ("train.steps=120", "train.checkpoint_every=10")


def named(data_dir: Path, module: str) -> list[psutil.Process]:
    return [each for each in family(data_dir) if module in each.cmdline()]


def rank(data_dir: Path) -> psutil.Process:
    servers = {each.pid for each in named(data_dir, "tutti.trainer.forkserver")}
    return next(each for each in named(data_dir, "tutti.trainer.forkserver") if each.ppid() in servers)


def io_child(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.trainer.iochild")[0]


def agent(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.trainer")[0]


def host(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.chassis.main")[0]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory, pages: Path) -> dict[int, str]:
    result = tutti(*tiny(tmp_path_factory.mktemp("whole") / "data", pages, *STEPS))
    assert result.code == 0, result.err
    return checkpoints(result.json())


def decided(data_dir: Path) -> int:
    """The newest committed step of the only job; 0 while nobody answers."""
    try:
        with connect(data_dir=data_dir) as client:
            return max((job.decided_step for job in client.scheduler.ListJobs(ListRequest()).jobs), default=0)
    except Problem:
        return 0


KILLS = [(rank, signal.SIGKILL), (io_child, signal.SIGKILL), (agent, signal.SIGKILL), (host, signal.SIGKILL)]
STOPS = [(rank, signal.SIGSTOP), (io_child, signal.SIGSTOP)] if SOAK else []


@pytest.mark.parametrize(
    ("part", "number"), KILLS + STOPS, ids=lambda each: each.name if isinstance(each, signal.Signals) else each.__name__
)
def test_the_job_ends_by_itself_with_the_same_states(
    part: Callable[[Path], psutil.Process],
    number: signal.Signals,
    states: dict[int, str],
    pages: Path,
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "data"
    process = start(*tiny(data_dir, pages, *STEPS))
    until(lambda: decided(data_dir) >= 10, seconds=120, what="step 10")
    part(data_dir).send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert checkpoints(json.loads(out)) == states
    history = json.loads(out)["train"]["history"]
    print("\n".join(history))
    if part is rank:
        assert any("rank" in line and ("lost" in line or "killed" in line) for line in history)
    assert family(data_dir) == []
