"""Start and memory: `tutti up` on a fresh data directory until it is healthy, and what its processes hold then.

Healthy: overall health is SERVING and the agent's node takes ranks. The peer of the start is a bare interpreter that
imports the libraries a host needs; the peer of the fork server one that imports torch.
"""

import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.pairs import Pairs, median, timed
from benchmarks.platforms import pss, up
from benchmarks.program import main, scratch
from benchmarks.table import Row, at_most
from tutti.trainer.rank.forkserver import NOTICE, PURE_THREADS

GOAL_SECONDS = 8.0
GOAL_MIB = 600.0
GOAL_FORK_SERVER_MIB = 700.0
SETTLE_SECONDS = 2.0
LIBRARIES = "grpc, grpc.aio, sqlalchemy, pydantic, prometheus_client, opentelemetry.sdk.trace, google.protobuf.message"
TORCH = "torch, torch.distributed"
START_SECONDS = 120


CHECK_SECONDS = 2.0


def measure(quick: bool) -> list[Row]:
    """Starts on fresh data directories, one after the other."""
    starts: list[float] = []
    bare: list[float] = []
    cores: list[float] = []
    bare_cores: list[float] = []
    serving: list[float] = []
    held: list[dict[str, float]] = []
    for number in range(2 if quick else 8):
        with scratch("startup") as folder, up(Path(folder) / f"data-{number}") as platform:
            starts.append(platform.healthy)
            cores.append(platform.core_seconds)
            serving.append(platform.serving)
            time.sleep(SETTLE_SECONDS)
            held.append({_role(each.cmdline()): pss(each) for each in platform.processes()})
        before = _core_seconds_of_children()
        bare.append(timed(lambda: _python(f"import {LIBRARIES}"))())
        bare_cores.append(_core_seconds_of_children() - before)
    memory = max(held, key=lambda each: sum(each.values()))
    parts = ", ".join(f"{name} {value:.0f}" for name, value in sorted(memory.items()))
    fork_server, torch_alone = _fork_server(), _bare_torch()
    return [
        Row(
            what="tutti up to healthy, worst",
            unit="s",
            ours=max(starts),
            peer=median(bare),
            ratio=Pairs(tuple(starts), tuple(bare)).cost(),
            goal=at_most(GOAL_SECONDS),
            note=f"{len(starts)} starts, each on a fresh data directory, median {median(starts):.1f} s; the host "
            f"answered after {median(serving):.1f} s; peer: python -c 'import {LIBRARIES}'",
        ),
        Row(
            what="  the same, time on cores",
            unit="s",
            ours=median(cores),
            peer=median(bare_cores),
            ratio=Pairs(tuple(cores), tuple(bare_cores)).cost(),
            note="of all its processes until healthy: what the start costs where others use the cores too",
        ),
        Row(
            what="memory without ranks and fork server",
            unit="MiB",
            ours=sum(memory.values()),
            goal=at_most(GOAL_MIB),
            note=f"sum of PSS {SETTLE_SECONDS:.0f} s after that, the worst start: {parts}",
        ),
        Row(
            what="memory of a fork server",
            unit="MiB",
            ours=fork_server,
            peer=torch_alone,
            goal=at_most(GOAL_FORK_SERVER_MIB),
            note=f"PSS when ready, before its first rank; peer: python -c 'import {TORCH}'",
        ),
        _check(2 if quick else 8),
    ]


def _role(command: list[str]) -> str:
    """A process by what it runs."""
    modules = [command[at + 1] for at, part in enumerate(command[:-1]) if part == "-m"]
    if modules:
        return modules[0].removeprefix("tutti.")
    return next((Path(part).name for part in command[1:] if not part.startswith("-")), "python")


def _core_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=START_SECONDS)


def _check(times: int) -> Row:
    """Time `tutti recipes check` without a platform, once its modules are compiled, as they are after an install."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with scratch("check") as folder:
        (Path(folder) / "pages").mkdir()
        (Path(folder) / "pages" / "one.txt").write_text("Once there was a text.\n" * 40)
        recipe = Path(folder) / "one.yaml"
        recipe.write_text("input: {path: pages}\nsize: tiny\ntrain: {steps: 4}\n")
        tutti, data = Path(sys.executable).parent / "tutti", Path(folder) / "data"
        command = [str(each) for each in (tutti, "recipes", "check", recipe, "--data-dir", data)]
        check = timed(lambda: subprocess.run(command, check=True, capture_output=True, env=environment))
        check()
        cores, took = list[float](), list[float]()
        for _ in range(times):
            before = _core_seconds_of_children()
            took.append(check())
            cores.append(_core_seconds_of_children() - before)
    return Row(
        what="tutti recipes check, time on cores",
        unit="s",
        ours=median(cores),
        goal=at_most(CHECK_SECONDS),
        note=f"{times} times, without a platform; on the wall median {median(took):.2f} s",
    )


def _fork_server() -> float:
    """As the agent's launcher starts it."""
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tutti.trainer.rank.forkserver", str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **PURE_THREADS},
    )
    theirs.close()
    try:
        own.settimeout(START_SECONDS)
        if len(own.recv(NOTICE.size)) != NOTICE.size:
            raise RuntimeError("the fork server ended before it was ready")
        return pss(process.pid)
    finally:
        own.close()
        process.wait(START_SECONDS)


def _bare_torch() -> float:
    process = subprocess.Popen(
        [sys.executable, "-c", f"import {TORCH}; print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **PURE_THREADS},
    )
    assert process.stdout is not None
    process.stdout.readline()
    found = pss(process.pid)
    process.communicate(b"\n", timeout=START_SECONDS)
    return found


if __name__ == "__main__":
    main("startup", __doc__, measure)
