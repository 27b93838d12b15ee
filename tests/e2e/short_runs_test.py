"""Short runs, one after the other, on one platform: each ends, and the memory of host and agent stays as it is once
everything was used. Every run reads a page that no other read, so it passes all stages up to an index.
"""

import time
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.command import TINY
from tests.faults.processes import named, until
from tests.lacking import lacking
from tests.scale import SOAK, scale
from tutti.client import Client, connect
from tutti.contracts.common.v1 import STATE_DONE, STATE_PENDING, STATE_RUNNING, GetRequest
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run

PAGES, WORDS = 3, 40
STAGES = ["ingest", "filter", "dedup", "tokenization", "train", "index"]
PROGRAMS = {"host": "tutti.platform.entry", "agent": "tutti.trainer"}
"""A word of the command line of each process that is measured."""
PART = 5
"""After a fifth of the runs everything was used, and caches are full."""
MOST_GROWTH = 6 << 10
"""Bytes a run, most of them cycles that are not collected yet; it was 47 KB of the host and 42 KB of the agent."""
RUN_SECONDS = 120


def growth(sizes: list[int]) -> float:
    """Return the median of the slopes between any two sizes (Theil and Sen), which a few outliers do not move."""
    values, places = np.array(sizes, float), np.arange(len(sizes))
    first, second = np.triu_indices(len(sizes), 1)
    return float(np.median((values[second] - values[first]) / (places[second] - places[first])))


def anonymous_bytes(pid: int) -> int:
    """Return the memory of a process that no file backs (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("Anonymous:")).split()[1])


def oldest(data_dir: Path, program: str) -> int:
    """Return the process of a platform that runs a program, not one that it forked. Waits for the first one."""
    until(lambda: bool(named(data_dir, program)), seconds=RUN_SECONDS, what=f"a process with {program}")
    return min(named(data_dir, program), key=lambda each: each.create_time()).pid


def write_pages(folder: Path, number: int) -> None:
    """The pages of a run: the first one is its own."""
    for page in range(PAGES):
        which = f"run {number}" if page == 0 else f"page {page}"
        text = " ".join(f"It says {word} to its reader on {which}." for word in range(WORDS))
        (folder / f"{page}.html").write_text(f"<h1>Page {page}</h1><p>{text}</p>")


def run_to_end(client: Client, pages: Path, number: int) -> Run:
    sets = (f"input.path={pages}", f"train.seed={number}", "train.steps=2", "train.ranks=1", "index=true")
    request = CreateRunRequest(
        request_id=f"short-{number}", recipe=TINY.read_text(), overrides=sets, directory=str(TINY.parent)
    )
    name = client.pipeline.CreateRun(request, timeout=RUN_SECONDS).run.name
    found = Run()

    def ended() -> bool:
        found.CopyFrom(client.pipeline.GetRun(GetRequest(name=name)))
        return found.state not in (STATE_PENDING, STATE_RUNNING)

    until(ended, seconds=RUN_SECONDS, what=f"the end of run {number}")
    return found


def test_the_growth_of_sizes_is_their_slope_whatever_a_few_of_them_are() -> None:
    sizes = [1000 + 3 * number for number in range(100)]
    sizes[50], sizes[99] = 10**9, 0
    assert growth(sizes) == pytest.approx(3.0, rel=0.05)


def test_short_runs_leave_nothing_in_the_memory_of_host_and_agent(served: Path, tmp_path: Path) -> None:
    if not Path("/proc/self/smaps_rollup").exists():
        lacking("needs /proc/PID/smaps_rollup, which Linux has")
    runs = scale(test=2, soak=1_000)
    pids = {name: oldest(served, program) for name, program in PROGRAMS.items()}
    sizes: dict[str, list[int]] = {name: [] for name in PROGRAMS}
    began = time.monotonic()
    with connect(served) as client:
        for number in range(runs):
            write_pages(tmp_path, number)
            run = run_to_end(client, tmp_path, number)
            assert run.state == STATE_DONE, run
            assert [stage.name for stage in run.stages if not stage.reused] == STAGES
            for name, pid in pids.items():
                sizes[name].append(anonymous_bytes(pid))
    print(f"count of runs: {runs}, {(time.monotonic() - began) / runs:.1f} s each")
    slopes = {name: growth(of_runs[runs // PART :]) for name, of_runs in sizes.items()}
    for name, of_runs in sizes.items():
        places = ", ".join(f"{of_runs[place]:,} at {place}" for place in range(0, runs, max(1, runs // PART)))
        print(f"bytes of the {name} by count of runs: {places}, {of_runs[-1]:,} at {runs}")
        print(f"growth of the {name}: {slopes[name]:,.0f} bytes a run, at most {MOST_GROWTH:,}")
    assert not SOAK or max(slopes.values()) <= MOST_GROWTH
