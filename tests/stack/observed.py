"""Observe a training from outside: its steps by time, the connections to Postgres, and the leaders."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
import psycopg

from tests.stack.conftest import local
from tutti.chassis.errors import Problem
from tutti.client import connect
from tutti.contracts.admin.v1 import DescribeRequest
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import Job

LOOK_SECONDS = 0.1


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


def leads_after(data_dir: Path, term: int) -> bool:
    try:
        return leaders(data_dir)["scheduler"][1] > term
    except (Problem, KeyError):
        return False


@contextmanager
def hanging(*processes: psutil.Process) -> Iterator[None]:
    """Stop each process with its children, and let those that are left continue at the end."""
    hung = [each for process in processes for each in (process, *process.children(recursive=True))]
    for each in hung:
        with suppress(psutil.NoSuchProcess):
            each.suspend()
    try:
        yield
    finally:
        for each in hung:
            with suppress(psutil.NoSuchProcess):
                each.resume()
