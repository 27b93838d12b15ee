"""Run a row of the campaigns at its full number, and record what came of it in soak/.

Promises: the record names the row, the commands, the commit and the digest of the source, the processor, seeds and
counts as they were printed, and the outcome; a row that fails is recorded too. A row stops at its first command that
fails.
"""

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.program import machine

ROOT = Path(__file__).resolve().parents[1]
WRONG_LINES = 200
LIMIT_SECONDS = 2 * 3600
MARKS = (
    "scale:", "seed", "count", "moment", "faults", "events", "alert", "longest", "at most", "lost", "passed", "failed",
)  # fmt: skip
"""What the lines of a campaign contain that are kept."""
KEPT_LINES = 2_000


@dataclass(frozen=True)
class Command:
    """Arguments of this interpreter; `marks`: which of the lines that it prints are kept (all, when there are none)."""

    arguments: tuple[str, ...]
    marks: tuple[str, ...] = ()

    def kept(self, output: str) -> list[str]:
        """The lines for the record, none of which names a folder of this machine."""
        lines = [line for line in output.splitlines() if not self.marks or any(mark in line for mark in self.marks)]
        return [without_folders(line) for line in lines[-KEPT_LINES:]]


@dataclass(frozen=True)
class Row:
    """A claim, and the commands that show it."""

    what: str
    commands: tuple[Command, ...]

    @property
    def lines(self) -> list[str]:
        """The commands as the record has them."""
        return [shlex.join(["python", *command.arguments]) for command in self.commands]


def campaign(*chosen: str, workers: int = 0) -> Command:
    """Tests at their full number; `workers`: processes that share them (0: this one alone)."""
    shared = ("-n", str(workers), "--dist", "loadscope") if workers else ()
    options = ("-q", "-rP", "-p", "no:cacheprovider", f"--timeout={LIMIT_SECONDS}")
    return Command(("-m", "pytest", *options, *shared, *chosen), MARKS)


def benchmark(module: str) -> Command:
    """A benchmark whose goals must be met."""
    return Command(("-m", module, "--strict"))


ROWS = {
    1: Row("a fresh clone: make run", (benchmark("benchmarks.first_run"),)),
    2: Row("a fresh clone: make run-stack, servers killed", (benchmark("benchmarks.stack_run"),)),
    3: Row("every number of data-parallel ranks gives the same states", (campaign("tests/numerics"),)),
    4: Row("transitions keep the states", (campaign("tests/e2e/reshape_test.py"),)),
    5: Row("the simulation of all services over seeds", (campaign("tests/simulation", workers=2),)),
    6: Row("the commit protocol at every crash point", (campaign("tests/commit", workers=2),)),
    7: Row(
        "real processes killed at named moments",
        (campaign("tests/faults", "tests/numerics/barrier_test.py", workers=2),),
    ),
    8: Row("contract suites on every adapter", (campaign("tests/contract"),)),
    9: Row("lineage equals a slow recomputation", (campaign("tests/e2e/lineage_test.py"),)),
    10: Row("figures beside their peers", (benchmark("benchmarks"),)),
    11: Row(
        "sizes, and how much a change touches",
        (Command(("tools/house.py", "sizes")), campaign("tests/house", "tests/contracts/contributing_test.py")),
    ),
    12: Row("a hostile site crawled, and killed meanwhile", (campaign("tests/crawl"),)),
    13: Row("pages retracted, to the state of runs that never had them", (campaign("tests/e2e/retraction_test.py"),)),
    14: Row("ids that others give too, and texts that come back", (campaign("tests/corpus", "tests/corpora"),)),
    15: Row("harm and quality told on texts that were held out", (benchmark("benchmarks.classifiers"),)),
    16: Row("figures of the data plane beside their peers", (Command(("-m", "benchmarks", "data", "--strict")),)),
    17: Row("annotators interrupted: nothing lost, nothing doubled", (campaign("tests/browser/annotation_test.py"),)),
    18: Row(
        "policies and reward models of five seeds beside their goals and controls",
        (
            benchmark("benchmarks.assistant"),
            benchmark("benchmarks.reward"),
            campaign("libs/tutti/judgements/fit_test.py"),
        ),
    ),
    19: Row(
        "alerts that fire when their condition is caused on real services", (campaign("tests/stack/alerts_test.py"),)
    ),
    20: Row(
        "sampling has the log-probabilities of training, to the bit; policies killed come to the same state",
        (campaign("tests/numerics/parity_test.py"), campaign("tests/faults/policy_test.py")),
    ),
    21: Row(
        "faults by seed on real services, every replica restarted, leaders lost, servers slow, cut off, full, damaged",
        (
            campaign("tests/stack/rounds_test.py"),
            campaign("tests/stack/stack_test.py"),
            campaign("tests/stack/replicated_test.py"),
            campaign("tests/stack/network_test.py"),
            campaign("tests/stack/serverdisk_test.py"),
            campaign("tests/e2e/damage_test.py"),
        ),
    ),
    22: Row(
        "commands of the pages for operators and of the tutorial, as they are written",
        (campaign("tests/e2e/operations_test.py"), campaign("tests/e2e/tutorial_test.py")),
    ),
    23: Row(
        "post-training in a fresh clone; the annotators' page under load; steps and judgements beside their peers",
        (
            benchmark("benchmarks.assistant_run"),
            benchmark("benchmarks.annotation"),
            benchmark("benchmarks.behaviour"),
        ),
    ),
    24: Row(
        "a rank that computes wrong in every epoch is convicted alone, and the state is the undisturbed one",
        (
            campaign("libs/tutti/model/audit_test.py", "tests/numerics/barrier_test.py"),
            campaign("tests/simulation/audits_test.py", workers=2),
        ),
    ),
    25: Row("replicas killed and stopped while they generate: every completion is the same", (campaign("tests/chat"),)),
    26: Row(
        "the filter shows what a naive scan of the finished text lets pass, however the text arrives",
        (campaign("services/tutti/chat/filter", "tests/chat/filter_test.py"),),
    ),
    27: Row(
        "1,000 short runs: the memory of host and agent is flat after the first 200",
        (campaign("tests/e2e/short_runs_test.py"),),
    ),
}


DUE = frozenset({14, 18, 22, 23})
"""Rows without a record, or with one of other commands; a row that is recorded leaves the list."""


def record_of(number: int) -> Path:
    return ROOT / "soak" / f"row-{number}.json"


def due() -> set[int]:
    """The rows that have no record of the commands that they have now."""
    return {
        number
        for number, row in ROWS.items()
        if not record_of(number).exists() or json.loads(record_of(number).read_text())["commands"] != row.lines
    }


def git(*arguments: str) -> str:
    """What a git command that must succeed prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def changed() -> bool:
    """Whether the working tree differs from its commit in anything but records."""
    return git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)soak") != ""


def source_digest() -> str:
    """Over the names and bytes of all files that git knows or would add, without records and prose (`soak/`, *.md)."""
    state = hashlib.sha256()
    for name in sorted(git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()):
        path = ROOT / name
        if path.is_file() and not name.startswith("soak/") and path.suffix != ".md":
            state.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def carry_out(command: Command, *, seconds: float) -> tuple[int, str]:
    """Its exit code (124 when it took longer than it may) and what it printed."""
    try:
        done = subprocess.run(
            [sys.executable, *command.arguments],
            cwd=ROOT,
            env={**os.environ, "CAMPAIGN_SCALE": "soak"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return 124, error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    return done.returncode, done.stdout


def without_folders(line: str) -> str:
    """The line, where the folders of this clone, of temporary files and of the user are written as `.`, `tmp`, `~`."""
    for folder, name in ((ROOT, "."), (Path(tempfile.gettempdir()), "tmp"), (Path.home(), "~")):
        line = line.replace(str(folder), name)
    return line


def wrong(output: str) -> list[str]:
    """What pytest says of assertions that failed, in its own lines."""
    lines = [line for line in output.splitlines() if line.startswith(("E ", "FAILED ", "ERROR "))]
    return [without_folders(line) for line in lines[:WRONG_LINES]]


def run(number: int, row: Row) -> int:
    """Carry a row out and record it; the exit code of the command that failed, else 0."""
    began, code, printed, on = time.monotonic(), 0, list[str](), str(machine())
    commit, source = git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed() else ""), source_digest()
    for command in row.commands:
        code, output = carry_out(command, seconds=LIMIT_SECONDS - (time.monotonic() - began))
        printed += command.kept(output)
        print(output[-4000:])
        if code:
            printed += wrong(output)
            print("\n".join(wrong(output)))
            break
    record = {
        "row": number,
        "what": row.what,
        "commands": row.lines,
        "commit": commit,
        "source": source,
        "machine": on,
        "seconds": round(time.monotonic() - began, 1),
        "exit_code": code,
        "printed": printed,
    }
    target = record_of(number)
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    print(f"recorded in {target.relative_to(ROOT)}")
    return code


def main() -> None:
    """Exits with the row's code."""
    parser = argparse.ArgumentParser(description="Run a campaign at its full number and record it.")
    parser.add_argument(
        "row", type=int, choices=sorted(ROWS), help="; ".join(f"{n}: {r.what}" for n, r in ROWS.items())
    )
    number = parser.parse_args().row
    sys.exit(run(number, ROWS[number]))


if __name__ == "__main__":
    main()
