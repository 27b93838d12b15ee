"""The CPU of a gRPC call with authentication and an exported trace, beside the same server without both.

Two processes serve the same method: one as the platform does, exporting every span to a collector; in the other the
caller is taken for an operator and no span is made. Both are asked in turns; only the CPU time of the servers counts.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from opentelemetry.trace import INVALID_SPAN, Span
from tests.e2e.collector import Collector

from benchmarks.pairs import alternate, median
from benchmarks.platforms import core_seconds
from benchmarks.program import WentWrong, main, scratch
from benchmarks.table import Row, at_most
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import server
from tutti.chassis.rpc.methods import Method
from tutti.chassis.service import Host, Service
from tutti.chassis.telemetry import ENDPOINT_VARIABLE
from tutti.client import Unreachable, connect
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub
from tutti.tokenization import service as tokenization

GOAL = at_most(150.0)
CALLS = 1000
PAIRS, QUICK_PAIRS = 30, 8
START_SECONDS = 60.0


def bare(host: Host) -> Service:
    """The service in a process that asks nobody who he is and makes no span."""

    async def operator(self: server.RpcServer, method: Method, header: str) -> tuple[Role, Principal | None]:
        return Role.OPERATOR, None

    def no_span(*given: Any, **named: Any) -> contextlib.nullcontext[Span]:
        return contextlib.nullcontext(INVALID_SPAN)

    server.RpcServer._caller = operator  # type: ignore[method-assign]
    vars(server)["span_from"] = no_span
    return tokenization.build(host)


@contextlib.contextmanager
def served(folder: Path, build: str, environment: dict[str, str]) -> Iterator[tuple[psutil.Process, Any]]:
    """A process that serves, and a stub that calls it."""
    command = [sys.executable, "-m", "tutti.platform.main", "--data-dir", str(folder), build]
    process = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (folder / "endpoint").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise WentWrong(f"{build} did not start within {START_SECONDS:.0f} s")
            time.sleep(0.05)
        with contextlib.suppress(Unreachable), connect(folder) as client:
            yield psutil.Process(process.pid), TokenizationServiceStub(client.channel("tokenization"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(START_SECONDS)


def microseconds(process: psutil.Process, stub: Any) -> float:
    """CPU time of the server for a call, over CALLS of them."""
    before = core_seconds(process.pid)
    for _ in range(CALLS):
        stub.ListTokenizations(ListRequest(page_size=1))
    return 1e6 * (core_seconds(process.pid) - before) / CALLS


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where spans are not exported."""
    collector = Collector()
    collector.answer()
    exporting = {ENDPOINT_VARIABLE: f"http://{collector.address}", "OTEL_EXPORTER_OTLP_INSECURE": "true"}
    with scratch("stack-calls") as name:
        folder = Path(name)
        with (
            served(folder / "full", "tokenization", exporting) as full,
            served(folder / "bare", "tokenization=benchmarks.stack_calls:bare", {ENDPOINT_VARIABLE: ""}) as plain,
        ):
            pairs = QUICK_PAIRS if quick else PAIRS
            found = alternate(lambda: microseconds(*full), lambda: microseconds(*plain), pairs=pairs, warmups=2)
    collector.close()
    if not collector.count:
        raise WentWrong("the collector got no span")
    added = median([ours - peer for ours, peer in zip(found.ours, found.peer, strict=True)])
    note = f"a call costs {median(found.ours):,.0f} µs with both, {median(found.peer):,.0f} µs without; "
    note += f"{collector.count:,} spans were exported"
    return [Row("authentication and tracing of a call", "µs CPU", ours=added, goal=GOAL, note=note)]


if __name__ == "__main__":
    main("stack_calls", __doc__, measure)
