"""Many runs on one platform: what its host grows by, and how soon a platform with so many runs starts again.

Every run is the tiny recipe over three pages with a seed of its own, so that each of them trains.
"""

import subprocess
import sys
from pathlib import Path

import psutil

from benchmarks.platforms import Platform, up
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.table import Row, at_most

RUNS, QUICK_RUNS = 200, 40
FIRST = 20
"""After so many runs everything was used once: caches are filled, libraries loaded."""
RUN_SECONDS = 300
PAGE = "<h1>Page {number}</h1><p>{text}</p>"
GROWTH_MIB, START_SECONDS = at_most(20.0), at_most(5.0)


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where a run does not end well."""
    runs = QUICK_RUNS if quick else RUNS
    with scratch("stack-runs") as name:
        folder = Path(name)
        pages = folder / "pages"
        pages.mkdir()
        for number in range(3):
            text = " ".join(f"It says {word} to its reader on page {number}." for word in range(40))
            (pages / f"{number}.html").write_text(PAGE.format(number=number, text=text))
        with up(folder / "data") as platform:
            begun = 0.0
            for number in range(runs):
                _run(platform, pages, number)
                if number + 1 == FIRST:
                    begun = _host_mib(platform)
            ended = _host_mib(platform)
        with up(folder / "data") as platform:
            serving = platform.serving
    note = f"private memory after {FIRST} and after {runs} runs: {begun:,.0f} and {ended:,.0f} MiB"
    return [
        Row(f"growth of the host, run {FIRST} to {runs}", "MiB", ours=ended - begun, goal=GROWTH_MIB, note=note),
        Row(f"start with {runs} runs", "s", ours=serving, goal=START_SECONDS, note="until overall health is SERVING"),
    ]


def _run(platform: Platform, pages: Path, number: int) -> None:
    sets = (f"input.path={pages}", f"data.seed={number}", "train.steps=2", "train.ranks=1")
    command = [Path(sys.executable).with_name("tutti"), "run", ROOT / "recipes" / "tiny.yaml"]
    given = [part for each in sets for part in ("--set", each)]
    done = subprocess.run(
        [*map(str, command), *given, "--data-dir", str(platform.data_dir)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise WentWrong(f"run {number} ended with {done.returncode}: {done.stderr.strip()[-500:]}")


def _host_mib(platform: Platform) -> float:
    (host,) = (each for each in platform.processes() if "tutti.platform.entry" in each.cmdline())
    return float(psutil.Process(host.pid).memory_full_info().uss) / 2**20


if __name__ == "__main__":
    main("stack_runs", __doc__, measure)
