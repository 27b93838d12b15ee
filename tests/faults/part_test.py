"""One process of a platform dies or stands still while it trains: the job ends by itself, with the same states.

A rank, the I/O child, an agent, the host: each is killed and each is stopped (in `make test` one of these, another
after each commit). The
job's history says what happened, no rank outlives its attempt, and who was not hit was left alone. Where the only
checkpoint is damaged too, the job begins a new line from nothing, and makes the same states there.
"""

import json
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.command import platform, start, tiny, tutti
from tests.e2e.conftest import LONG_EVERY, LONG_STEPS
from tests.e2e.flips import flip_file
from tests.faults.processes import blobs, family, named, until
from tests.scale import SOAK, rotated
from tutti.platform.processes import process_id

pytestmark = pytest.mark.timeout(900)
LAST, EVERY, SELDOM = LONG_STEPS, LONG_EVERY, 60
# With shorter deadlines than a platform has by default; what it does is the same with any.
HASTE = """
[rank]
watchdog_seconds = 6
[supervisor]
silence_seconds = 10
"""


def ranks(data_dir: Path) -> list[psutil.Process]:
    servers = {each.pid for each in named(data_dir, "tutti.trainer.rank.forkserver")}
    return [each for each in named(data_dir, "tutti.trainer.rank.forkserver") if each.ppid() in servers]


def rank(data_dir: Path) -> psutil.Process:
    return ranks(data_dir)[0]


def io_child(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.trainer.io.iochild")[0]


def agent(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.trainer")[0]


def host(data_dir: Path) -> psutil.Process:
    return named(data_dir, "tutti.platform.entry")[0]


@dataclass(frozen=True)
class Fault:
    """`told` is what the history says, `children` what the supervisor started again, `void`: the attempt ends.

    `damaged`: the first checkpoint too, while there is no other.
    """

    part: Callable[[Path], psutil.Process]
    signal: signal.Signals
    told: str
    children: tuple[str, ...] = ()
    void: bool = False
    damaged: bool = False

    def __str__(self) -> str:
        return f"{self.part.__name__}-{self.signal.name}{'-damaged' if self.damaged else ''}"

    @property
    def every(self) -> int:
        """Steps between checkpoints: enough for the second to come after the damage to the first."""
        return SELDOM if self.damaged else EVERY

    @property
    def checkpoints(self) -> list[tuple[int, int]]:
        """Line and step of each that is made."""
        steps = range(self.every, LAST + 1, self.every)
        return [(0, self.every), *((1, step) for step in steps)] if self.damaged else [(0, step) for step in steps]


KILL, STOP = signal.SIGKILL, signal.SIGSTOP
AGENT = r"nodes/a (has a new agent|lost \(not heard of)"
HOST = r"the scheduler was started again; its ranks went on"
KILLED = r"rank (\d) on nodes/a lost \(.*rank \1 was killed by SIGKILL"
FAULTS = [
    Fault(rank, KILL, KILLED, void=True, damaged=True),
    Fault(io_child, STOP, r"nodes/a: the I/O child \(process \d+\) has not answered for .* s: another took over"),
    Fault(agent, STOP, AGENT, ("agent-a",), void=True),
    Fault(host, STOP, HOST, ("host",)),
    Fault(rank, KILL, KILLED, void=True),
    Fault(rank, STOP, r"rank (\d) on nodes/a lost \(.*rank \1 has not answered for", void=True),
    Fault(io_child, KILL, r"nodes/a: the I/O child \(process \d+\) ended \(SIGKILL\): another took over"),
    Fault(agent, KILL, AGENT, ("agent-a",), void=True),
    Fault(host, KILL, HOST, ("host",)),
]


def steps(every: int) -> tuple[str, str]:
    return f"train.steps={LAST}", f"train.checkpoint_every={every}"


@pytest.fixture(scope="module")
def states(states_of_a_long_run: dict[int, str]) -> dict[int, str]:
    rotated(FAULTS, test=1)  # for the summary, which shows what a test or fixture prints
    return states_of_a_long_run


def record(data_dir: Path) -> dict[str, dict[str, Any]]:
    """What the supervisor recorded of its children."""
    return {each["name"]: each for each in json.loads((data_dir / "processes.json").read_text())["children"]}


def await_the_next_agent(data_dir: Path) -> None:
    until(lambda: record(data_dir)["agent-a"]["restarts"] > 0, seconds=120, what="the death of the agent")
    until(lambda: record(data_dir)["agent-a"]["pid"] > 0, seconds=60, what="the next agent")


@pytest.mark.parametrize("fault", rotated(FAULTS, test=1), ids=str)
def test_the_job_ends_by_itself_with_the_same_states(
    fault: Fault, states: dict[int, str], pages: Path, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    if not SOAK:
        data_dir.mkdir(mode=0o700)
        (data_dir / "tutti.toml").write_text(HASTE)
    with platform(data_dir):
        process = start(*tiny(data_dir, pages, *steps(fault.every)))
        committed = "committer/manifests"
        until(lambda: blobs(data_dir, committed) >= 1 or process.poll() is not None, seconds=180, what="a checkpoint")
        attempt = [process_id(each.pid) for each in ranks(data_dir)]
        assert len(attempt) == 2
        fault.part(data_dir).send_signal(fault.signal)
        if fault.damaged:
            flip_file(next((data_dir / "blobs" / "trainer" / "shards").glob(f"*.{fault.every}.1.0=*")))
        if fault.part is agent:
            await_the_next_agent(data_dir)
            assert not any(each.alive() for each in attempt)
        out, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
        made = {(each["line"], each["step"]): each["state_digest"] for each in json.loads(out)["checkpoints"]}
        assert made == {(line, step): states[step] for line, step in fault.checkpoints}
        shown = tutti("jobs", "show", json.loads(out)["train"]["name"], "--data-dir", data_dir, "-o", "json").json()
        children = record(data_dir)
    history = shown["history"]
    print(f"fault {fault}:", *history, sep="\n  ")
    assert any(re.search(fault.told, line) for line in history), fault.told
    assert (shown["epoch"] > 1) == fault.void
    if (fault.part, fault.signal) == (agent, STOP):
        said = (data_dir / "logs" / "agent-a.log").read_text()
        assert re.search(r"rank exits in step \d+, .*: no word from the agent", said), said
    assert tuple(sorted(name for name, each in children.items() if each["restarts"])) == fault.children
    assert not any(each.alive() for each in attempt)
    assert family(data_dir) == []
