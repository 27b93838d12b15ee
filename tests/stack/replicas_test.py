"""Two replicas of each service on one Kafka, Postgres and S3: restarted one after another, killed and stopped while a
training goes on, which does not notice; the states are those of the embedded platform.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.command import checkpoints, tiny, tutti
from tests.faults.processes import until
from tests.scale import SOAK
from tests.stack.conftest import brought_up, local, processes
from tutti.chassis.config.settings import installed_services
from tutti.chassis.errors import Problem
from tutti.client import connect
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import Job

pytestmark = pytest.mark.timeout(900)
RECIPE = ("input.limit=19", f"train.steps={1500 if SOAK else 150}", "train.checkpoint_every=50")
LEADING = ("scheduler", "committer", "pipeline")
MOST_CONNECTIONS = 80
LOOK_SECONDS = 0.1


@pytest.fixture(scope="module")
def replicas(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with brought_up(tmp_path_factory.mktemp("replicas") / "data", "--copies", "2") as data_dir:
        yield data_dir


@dataclass
class Observed:
    """The steps of a job as they were told, by time, and the connections to Postgres."""

    data_dir: Path
    job: str
    steps: list[tuple[float, int]] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        printed = local("stack.py", "reader", "--data-dir", self.data_dir).out
        url = dict(line.split("=", 1) for line in printed.splitlines())["TUTTI_SQL"]
        query = b"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as reader, connect(self.data_dir) as client:
            while not self.over.wait(LOOK_SECONDS):
                self.connections.append(reader.execute(query).fetchall()[0][0])
                try:
                    step = client.scheduler.GetJob(GetRequest(name=self.job), timeout=2.0).step
                except Problem:
                    continue
                if not self.steps or step > self.steps[-1][1]:
                    self.steps.append((time.monotonic(), step))

    @property
    def longest_gap(self) -> float:
        times = [at for at, _ in self.steps]
        return max((after - before for before, after in pairwise(times)), default=0.0)


def job_of(data_dir: Path, run: str) -> Job:
    with connect(data_dir) as client:
        stages = {each.name: each for each in client.pipeline.GetRun(GetRequest(name=run)).stages}
        found: Job = client.scheduler.GetJob(GetRequest(name=stages["train"].resource))
        return found


def leaders(data_dir: Path) -> dict[str, tuple[int, int]]:
    """By service: the process that leads, and its term."""
    with connect(data_dir) as client:
        described = client.admin.Describe(DescribeRequest()).services
    return {each.name: (int(each.leader.rpartition(":")[2] or 0), each.term) for each in described if each.term}


def trains(data_dir: Path, run: str, step: int) -> bool:
    try:
        return job_of(data_dir, run).step >= step
    except (Problem, KeyError):
        return False


@dataclass(frozen=True)
class Endured:
    result: Any
    observed: Observed
    before: dict[str, tuple[int, int]]
    after: dict[str, tuple[int, int]]
    job: Job


@pytest.fixture(scope="module")
def endured(replicas: Path, pages: Path) -> Endured:
    """A run while leaders are killed and stopped, and replicas restarted one after another."""
    detached = tutti(*tiny(replicas, pages, *RECIPE, output=("--detach",)))
    assert detached.code == 0, detached.err
    run = detached.out.strip()
    until(lambda: trains(replicas, run, 2), seconds=180, what="the training")
    observed = Observed(replicas, job_of(replicas, run).name)
    thread = threading.Thread(target=observed.look)
    thread.start()
    before = leaders(replicas)
    try:
        rolled = local("stack.py", "roll", "--data-dir", replicas, *only(), seconds=1800)
        assert rolled.code == 0, rolled.err
        print(rolled.out)
        os.kill(leaders(replicas)["committer"][0], signal.SIGKILL)
        stopped = leaders(replicas)["scheduler"]
        os.kill(stopped[0], signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: leads_after(replicas, stopped[1]), seconds=60, what="another scheduler")
        print(f"another scheduler leads {time.monotonic() - began:.1f} s after a SIGSTOP")
        os.kill(stopped[0], signal.SIGCONT)
        result = tutti("runs", "follow", run, "--data-dir", replicas, "-o", "json")
        assert result.code == 0, result.err
    finally:
        observed.over.set()
        thread.join()
    return Endured(result.json(), observed, before, leaders(replicas), job_of(replicas, run))


def only() -> list[str]:
    """All services in a soak; else those that lead."""
    return [] if SOAK else [part for each in LEADING for part in ("--only", each)]


def leads_after(data_dir: Path, term: int) -> bool:
    try:
        return leaders(data_dir)["scheduler"][1] > term
    except (Problem, KeyError):
        return False


def test_a_training_does_not_notice_that_its_services_are_restarted_killed_and_stopped(endured: Endured) -> None:
    assert endured.job.epoch == 1  # its ranks were never started again
    steps = endured.observed.steps
    usual = (steps[-1][0] - steps[0][0]) / max(1, steps[-1][1] - steps[0][1])
    print(f"a step took {usual:.2f} s; the longest time without one {endured.observed.longest_gap:.1f} s")


def test_every_new_leader_has_a_higher_term(endured: Endured) -> None:
    for service in LEADING:
        assert endured.after[service][1] >= endured.before[service][1] + 1
        assert endured.after[service][0] != 0


def test_two_replicas_of_each_service_open_80_connections_at_most(endured: Endured) -> None:
    print(f"{max(endured.observed.connections)} connections to Postgres at most")
    assert 0 < max(endured.observed.connections) <= MOST_CONNECTIONS


def test_the_states_are_those_of_the_embedded_platform(endured: Endured, embedded: Callable[..., Any]) -> None:
    assert checkpoints(endured.result) == checkpoints(embedded(*RECIPE))


def test_each_service_has_two_processes(replicas: Path) -> None:
    kept = [each["what"] for each in processes(replicas) if each["restarts"] is not None]
    assert {f"{service}{copy}" for service in installed_services() for copy in ("", "-2")} <= set(kept)
