"""Change the code of the modules that decide, one small change at a time, and see whether a test fails.

Promises: tests/house/mutants.json says for each module of `targets.py` how many mutants its tests kill and lists those
that survive, each with the reason why that is right; the record names the digest of the source that it is about. A
reason is kept while its mutant survives. The command fails while a survivor has no reason.

A mutant runs in a fork of a process that has imported the libraries, so it costs little more than its tests. Tests that
need more than three times their usual CPU time count as failed.
"""

import argparse
import contextlib
import importlib.abc
import importlib.util
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import google.protobuf.descriptor_pool  # noqa: F401
import grpc  # noqa: F401
import numpy  # noqa: F401
import pydantic  # noqa: F401
import pytest
import sqlalchemy.dialects.postgresql  # noqa: F401  # all of these are imported once, before the fork
import torch
from hypothesis import HealthCheck, Phase, settings
from tools.mutation.targets import RECORD, ROOT, TARGETS, code_digest

SLOWER, WALL_SECONDS = 3, 300.0
Row = dict[str, Any]


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from other code than its file's."""

    def __init__(self, name: str, path: Path, code: str) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._code, str(self._path), "exec"), module.__dict__)  # noqa: S102


class Quick:
    """A profile of hypothesis without chance and without shrinking: what failed is enough."""

    def pytest_collection_modifyitems(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        slow = [HealthCheck.too_slow, HealthCheck.differing_executors]
        settings.register_profile("mutants", deadline=None, derandomize=True, phases=phases, suppress_health_check=slow)
        settings.load_profile("mutants")


def module_name(path: str) -> str:
    return ".".join(Path(path).with_suffix("").parts[1:])


def survives(path: str, code: str, cpu_seconds: float) -> tuple[bool, float]:
    """Whether the tests of a module pass with this code in its place, and the CPU seconds that they took."""
    child = os.fork()
    if child == 0:
        _run(path, code, cpu_seconds)
    ends = time.monotonic() + WALL_SECONDS
    while time.monotonic() < ends:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0, used.ru_utime + used.ru_stime
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False, cpu_seconds


def _run(path: str, code: str, cpu_seconds: float) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_seconds), math.ceil(cpu_seconds) + 1))
    quiet = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(quiet, each)
    torch.set_num_threads(1)
    sys.meta_path.insert(0, Mutated(module_name(path), ROOT / path, code))
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"]
    outcome = 1
    try:
        outcome = int(pytest.main([*options, *TARGETS[path]], plugins=[Quick()]))
    finally:
        os._exit(outcome)


def examined(path: str, python: str, reasons: dict[tuple[str, str], str]) -> Row:
    """The row of a module in the record."""
    source = (ROOT / path).read_text()
    passed, used = survives(path, source, WALL_SECONDS)
    if not passed:
        sys.exit(f"{path}: its tests fail without any change: {' '.join(TARGETS[path])}")
    limit = SLOWER * used
    answer = subprocess.run([python, ROOT / "tools/mutation/mutants.py", ROOT / path], check=True, capture_output=True)
    made: list[Row] = json.loads(answer.stdout)
    left: list[Row] = []
    for number, mutant in enumerate(made, 1):
        print(f"\r{path} {number}/{len(made)}, {len(left)} survive", end="", file=sys.stderr, flush=True)
        if survives(path, mutant["code"], limit)[0]:
            why = reasons.get((mutant["before"], mutant["after"]), "")
            left.append({key: mutant[key] for key in ("operator", "line", "before", "after")} | {"why": why})
    print(file=sys.stderr)
    return {"source": code_digest(source), "mutants": len(made), "killed": len(made) - len(left), "survivors": left}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("python", help="the Python that has cosmic-ray")
    parser.add_argument("modules", nargs="*", help="paths of modules; all that changed since the record by default")
    arguments = parser.parse_args()
    record: dict[str, Row] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for path in arguments.modules or [each for each in TARGETS if each not in record or stale(each, record)]:
        before = record.get(path, {}).get("survivors", [])
        reasons = {(row["before"], row["after"]): row["why"] for row in before}
        record[path] = examined(path, arguments.python, reasons)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    unexplained = [(path, row) for path in record for row in record[path]["survivors"] if not row["why"]]
    for path, row in unexplained:
        print(f"{path}:{row['line']}: {row['before']}  ->  {row['after']}")
    total = sum(row["mutants"] for row in record.values())
    killed = sum(row["killed"] for row in record.values())
    print(f"{killed} of {total} mutants killed; {total - killed} survive, {len(unexplained)} of them without a reason")
    sys.exit(bool(unexplained))


def stale(path: str, record: dict[str, Row]) -> bool:
    """True if the code has changed since it was examined."""
    source: str = record[path]["source"]
    return source != code_digest((ROOT / path).read_text())


if __name__ == "__main__":
    main()
