"""Benchmarks, each a process, and one table: `make bench`, `make bench-data` for texts, `make bench-stack` for servers.

Quick ones take two to three minutes on two cores, full ones about twelve. A goal that was missed reads NO and makes
the exit code 1 only with --strict; a benchmark that breaks does so always. Everything goes to build/bench.json too.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.program import BUILD, INTERRUPTED, ROOT, machine, missed, parser
from benchmarks.table import Row, render

NAMES = (
    "eventlog",
    "kafkalog",
    "hop",
    "startup",
    "rank",
    "checkpoint",
    "recovery",
    "loader",
    "imports",
)
DATA = (
    "reading",
    "extraction",
    "quality",
    "classifiers",
    "near_duplicates",
    "repeated_lines",
    "engines",
    "tokenization",
    "crawl",
    "robots",
    "spans",
)
STACK = (
    "stack_events",
    "stack_calls",
    "stack_blobs",
    "stack_runs",
)
GROUPS = {"data": (*DATA, "loader"), "stack": STACK}
"""A name that stands for several."""
LIMIT_SECONDS = 1200
STOP_SECONDS = 120
RESULT = BUILD.with_suffix(".json")


class Broken(Exception):
    """A benchmark did not end well."""


def run(name: str, *, quick: bool) -> list[Row]:
    """The rows of one benchmark. Raises Broken with its last words."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "-o", "json", *(["--quick"] if quick else [])]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Broken(f"did not end within {LIMIT_SECONDS} s") from None
    finally:
        if process.poll() is None:  # interrupted, it stops the servers that it started
            process.terminate()
            process.communicate(timeout=STOP_SECONDS)
    if process.returncode != 0:
        words = err.strip().splitlines()
        raise Broken(words[-1] if words else f"exit code {process.returncode}")
    return [Row.from_json(row) for row in json.loads(out)["rows"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    made = parser("benchmarks", __doc__)
    known = ", ".join(NAMES + DATA + STACK)
    made.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"some of {known}; data or stack for a group of them; without a name: {', '.join(NAMES)}",
    )
    given = made.parse_args(arguments)
    if len(given.names) == 1:
        given.names = GROUPS.get(given.names[0], given.names)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if unknown := set(given.names) - {*NAMES, *DATA, *STACK}:
        made.error(f"unknown benchmark {sorted(unknown)[0]!r}: expected {known}")
    on, begun, rows, broken = machine(), time.monotonic(), [], []
    for name in given.names or NAMES:
        print(f"{time.monotonic() - begun:6.0f} s  {name}", file=sys.stderr, flush=True)
        try:
            rows += run(name, quick=given.quick)
        except KeyboardInterrupt:
            return INTERRUPTED
        except Broken as error:
            broken.append(name)
            rows.append(Row(name, note=f"broken: {error}"))
    seconds = time.monotonic() - begun
    result = {
        "machine": asdict(on),
        "quick": given.quick,
        "seconds": seconds,
        "rows": [row.to_json() for row in rows],
        "broken": broken,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if given.output == "json":
        print(json.dumps(result, indent=1))
    else:
        print(f"{on}\n\n{render(rows)}\n\n{_verdict(rows)}; {seconds:.0f} s; in {RESULT.relative_to(ROOT)}")
    return 1 if broken or (given.strict and missed(rows)) else 0


def _verdict(rows: Sequence[Row]) -> str:
    goals = [row for row in rows if row.goal is not None]
    met, unmeasured = (sum(row.met is wanted for row in goals) for wanted in (True, None))
    return f"{met} of {len(goals)} goals met, {unmeasured} not measured"


if __name__ == "__main__":
    sys.exit(main())
