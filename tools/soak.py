"""Run a row of the campaigns at its full number, and record what came of it in soak/.

Promises: the record names the row, the command, the digest of the source, seeds and counts as they were printed, and
the outcome; a row that fails is recorded too.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_SECONDS = 2 * 3600


@dataclass(frozen=True)
class Row:
    what: str
    tests: tuple[str, ...]


ROWS = {
    3: Row("every number of data-parallel ranks gives the same states", ("tests/numerics",)),
    4: Row("transitions keep the states", ("tests/e2e/reshape_test.py",)),
    5: Row("the simulation of all services over seeds", ("tests/simulation",)),
    6: Row("the commit protocol at every crash point", ("tests/commit",)),
    7: Row("real processes killed at named moments", ("tests/faults",)),
    8: Row("contract suites on every adapter", ("tests/contract",)),
    9: Row("lineage equals a slow recomputation", ("tests/e2e/lineage_test.py",)),
}


def source_digest() -> str:
    """Over the names and bytes of all files that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    state = hashlib.sha256()
    for name in sorted(listed.stdout.splitlines()):
        path = ROOT / name
        if path.is_file() and not name.startswith("soak/"):
            state.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def printed(output: str) -> list[str]:
    """The lines that a campaign prints for the record."""
    marks = ("scale:", "seed", "count", "moment", "faults", "events", "passed", "failed")
    return [line for line in output.splitlines() if any(mark in line for mark in marks)][-200:]


def run(number: int, row: Row) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "--timeout=7200", *row.tests]
    began = time.time()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "TUTTI_SCALE": "soak"},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        code, output = 124, error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    record = {
        "row": number,
        "what": row.what,
        "command": " ".join(["pytest", *row.tests]),
        "source": source_digest(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "seconds": round(time.time() - began, 1),
        "exit_code": code,
        "printed": printed(output),
    }
    target = ROOT / "soak" / f"row-{number}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(output[-4000:])
    print(f"recorded in {target.relative_to(ROOT)}")
    return code


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a campaign at its full number and record it.")
    parser.add_argument(
        "row", type=int, choices=sorted(ROWS), help="; ".join(f"{n}: {r.what}" for n, r in ROWS.items())
    )
    number = parser.parse_args().row
    sys.exit(run(number, ROWS[number]))


if __name__ == "__main__":
    main()
