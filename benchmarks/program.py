"""What the benchmarks share as programs: arguments, scratch folders, the words about the machine."""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.table import Row, render

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "bench"
INTERRUPTED = 130
SKIPPED = "skipped: "
"""How the note of a row begins that stands for a whole benchmark."""


class NotHere(Exception):
    """This machine lacks what the benchmark needs; the message says how to get it."""


class WentWrong(Exception):
    """What was measured did something else than it promises."""


@dataclass(frozen=True)
class Machine:
    """Where the figures come from."""

    cores: int
    cpu: str
    memory_gib: float
    python: str
    torch: str
    system: str
    load: float

    def __str__(self) -> str:
        return (
            f"{self.cores} cores of {self.cpu}, {self.memory_gib:.0f} GiB, load {self.load:.1f} at the start; "
            f"{self.system}, Python {self.python}, torch {self.torch}"
        )


def machine() -> Machine:
    """This one, now."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine(),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        python=platform.python_version(),
        torch=version("torch"),
        system=f"{platform.system()} {platform.release()}",
        load=os.getloadavg()[0],
    )


def parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """The arguments that all benchmarks take."""
    made = argparse.ArgumentParser(prog=f"python -m {prog}", description=description)
    made.add_argument("--quick", action="store_true", help="few repetitions: a first look, wide intervals")
    made.add_argument("--strict", action="store_true", help="end with 1 when a goal was missed or not measured")
    made.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return made


def main(name: str, description: str | None, measure: Callable[[bool], Sequence[Row]]) -> None:
    """The program of one benchmark; `measure(quick)` gives its rows. Exits."""
    given = parser(f"benchmarks.{name}", description).parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started is stopped then, too
    try:
        rows = list(measure(given.quick))
    except NotHere as error:
        rows = [Row(name, note=f"{SKIPPED}{error}")]
    except WentWrong as error:
        sys.exit(f"{name}: {error}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if given.output == "json":
        print(json.dumps({"machine": asdict(machine()), "rows": [row.to_json() for row in rows]}, indent=1))
    else:
        print(f"{machine()}\n\n{render(rows)}")
    sys.exit(1 if given.strict and missed(rows) else 0)


def missed(rows: Sequence[Row]) -> list[Row]:
    """Those whose goal was not met, or could not be measured; and whole benchmarks, whatever goals they have."""
    return [row for row in rows if (row.goal is not None and not row.met) or row.note.startswith(SKIPPED)]


def scratch(name: str) -> AbstractContextManager[str]:
    """A folder on the disk of the checkout, removed at the end."""
    BUILD.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=f"{name}-", dir=BUILD)
