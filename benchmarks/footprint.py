"""The footprint of each process of a stack, at rest and while it carries a recipe out, as a table for the docs.

    python -m benchmarks.footprint [--copies 2] [--record]     # --record writes it into docs/operations/footprint.md

Memory is the share of each process and its children (PSS), connections are those that are established, files are open
descriptors. Under load, each figure is the highest of those read every two seconds.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

from benchmarks.program import ROOT, machine, scratch

PAGE = ROOT / "docs" / "operations" / "footprint.md"
BEGIN, END = "<!-- python -m benchmarks.footprint --record -->", "<!-- end -->"
STACK = str(ROOT / "deploy" / "local" / "stack.py")
RECIPE = ROOT / "recipes" / "tiny.yaml"
REST_SECONDS, LOOK_SECONDS, RUN_SECONDS = 20.0, 2.0, 600.0
MEBI = 1 << 20


@dataclass(frozen=True)
class Footprint:
    memory: int = 0
    connections: int = 0
    files: int = 0
    threads: int = 0

    def __add__(self, other: "Footprint") -> "Footprint":
        return Footprint(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def highest(self, other: "Footprint") -> "Footprint":
        return Footprint(*(max(mine, theirs) for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return f"{self.memory / MEBI:,.0f} MiB | {self.connections} | {self.files} | {self.threads}"


Footprints = dict[str, Footprint]


def measure(copies: int) -> tuple[Footprints, Footprints]:
    """At rest, and under load. Raises subprocess.CalledProcessError."""
    pages = subprocess.run(
        [sys.executable, "tools/exhibit.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    with scratch("footprint") as folder, _up(Path(folder) / "data", copies) as data_dir:
        time.sleep(REST_SECONDS)
        rest = look(data_dir)
        tutti = str(Path(sys.executable).with_name("tutti"))
        command = [tutti, "run", str(RECIPE), "--data-dir", str(data_dir), "--set", f"input.path={pages}"]
        load = dict(rest)
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + RUN_SECONDS
        while run.poll() is None:
            if time.monotonic() > deadline:
                run.kill()
            time.sleep(LOOK_SECONDS)
            now = look(data_dir)
            load = {name: now.get(name, Footprint()).highest(before) for name, before in load.items()}
        if run.returncode:
            raise subprocess.CalledProcessError(run.returncode, command)
        return rest, load


def look(data_dir: Path) -> Footprints:
    """Each kept process together with its children, by name."""
    kept = json.loads((data_dir / "servers" / "kept.json").read_text())
    kept += json.loads((data_dir / "processes.json").read_text())["children"]
    found = {each["name"]: _whole(each["pid"]) for each in kept if each["pid"]}
    return dict(sorted(found.items()))


def _whole(pid: int) -> Footprint:
    total = Footprint()
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                connected = [one for one in each.net_connections("inet") if one.status == psutil.CONN_ESTABLISHED]
                total += Footprint(each.memory_full_info().pss, len(connected), each.num_fds(), each.num_threads())
    return total


@contextlib.contextmanager
def _up(data_dir: Path, copies: int) -> Iterator[Path]:
    def stack(*words: str) -> None:
        command = [sys.executable, STACK, *words, "--data-dir", str(data_dir)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    stack("up", "--copies", str(copies))
    try:
        yield data_dir
    finally:
        stack("down")


def table(rest: Footprints, load: Footprints) -> Iterator[str]:
    yield "| process | memory | connections | files | threads | memory under load | connections | files | threads |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for name, each in rest.items():
        yield f"| {name} | {each} | {load[name]} |"
    yield f"| all | {sum(rest.values(), Footprint())} | {sum(load.values(), Footprint())} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=__doc__)
    parser.add_argument("--copies", type=int, choices=(1, 2, 3), default=1, help="replicas of each service")
    parser.add_argument("--record", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    where = machine()
    rest, load = measure(given.copies)
    lines = [f"{given.copies} of each service, on {where}.", "", *table(rest, load)]
    print("\n".join(lines))
    if given.record:
        text = PAGE.read_text()
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
