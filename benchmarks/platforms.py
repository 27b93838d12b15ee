"""A platform to measure: `tutti up` on a fresh data directory, its processes, its health, its counters.

Promises: what it started has ended when the block has.
"""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tutti.backbone.direct import fetch
from tutti.chassis.errors import NotFound, Unavailable
from tutti.client import Client, Unreachable, connect
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.scheduler.v1 import NODE_STATE_READY

T = TypeVar("T")
NODE = "nodes/a"
UP_SECONDS = 120.0
LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class Platform:
    """A running `tutti up`; `serving` and `healthy` are seconds since its command was given."""

    process: subprocess.Popen[bytes]
    client: Client
    data_dir: Path
    serving: float
    healthy: float
    core_seconds: float
    """What its processes had used by then."""

    def processes(self) -> list[psutil.Process]:
        """The supervisor and all below it."""
        return _family(self.process.pid)

    def counter(self, name: str) -> float:
        """The sum of a metric of the agent over its labels; 0 before it was first counted."""
        address = (self.data_dir / "endpoints" / "agent-a.metrics").read_text().strip()
        with fetch(f"http://{address}/metrics", seconds=10) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.M))


@contextlib.contextmanager
def up(data_dir: Path) -> Iterator[Platform]:
    """Start it, wait until it is healthy, stop it at the end: overall health is SERVING and its node takes ranks."""
    started = time.perf_counter()
    command = Path(sys.executable).with_name("tutti")
    process = subprocess.Popen(
        [str(command), "up", "--data-dir", str(data_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        client = await_found(lambda: _reached(process, data_dir), what="an address")
        try:
            health: Any = HealthStub(client.channel("scheduler"))
            await_found(lambda: _serves(health), what="health SERVING")
            serving = time.perf_counter() - started
            await_found(lambda: _ready(client), what=f"{NODE} ready")
            healthy = time.perf_counter() - started
            yield Platform(process, client, data_dir, serving, healthy, core_seconds(process.pid))
        finally:
            client.close()
    finally:
        family = _family(process.pid)
        process.terminate()
        process.communicate(timeout=UP_SECONDS)
        _, left = psutil.wait_procs(family, timeout=UP_SECONDS)
        if left:
            raise RuntimeError(f"tutti up has ended, processes that it started have not: {left}")


def pss(process: psutil.Process | int) -> float:
    """MiB: shared pages count in proportion (smaps_rollup). 0 for a process that has ended."""
    pid = process if isinstance(process, int) else process.pid
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
        return int(found[1]) / 1024 if found else 0.0
    return 0.0


def await_found(look: Callable[[], T | None], *, what: str, seconds: float = UP_SECONDS) -> T:
    """What `look` finds, as soon as it finds something. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come within {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)
    return found


def _family(pid: int) -> list[psutil.Process]:
    """The process and all that it started; none when it has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def core_seconds(pid: int) -> float:
    """CPU time of a process and of all that it started."""
    return sum(sum(each.cpu_times()[:2]) for each in _family(pid))


def _reached(process: subprocess.Popen[bytes], data_dir: Path) -> Client | None:
    if process.poll() is not None:
        assert process.stderr is not None
        raise RuntimeError(f"tutti up ended: {process.stderr.read().decode(errors='replace').strip()}")
    with contextlib.suppress(Unreachable):
        return connect(data_dir)
    return None


def _serves(health: Any) -> bool:
    with contextlib.suppress(Unavailable):
        answer = health.Check(HealthCheckRequest(service=""), timeout=2.0)
        return bool(answer.status == HealthCheckResponse.SERVING)
    return False


def _ready(client: Client) -> bool:
    with contextlib.suppress(NotFound, Unavailable):
        return bool(client.scheduler.GetNode(GetRequest(name=NODE)).state == NODE_STATE_READY)
    return False
