"""The `tutti` command as a person runs it: a process, its output, its exit code."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "recipes" / "tiny.yaml"
TUTTI = str(Path(sys.executable).parent / "tutti")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours without what would point at another platform."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
    return {**kept, **(extra or {})}


def tutti(
    *arguments: str | Path, seconds: float = 240.0, extra: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> Result:
    """Run to the end; `before` is a command that runs it."""
    command = [*before, TUTTI, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=environment(extra), cwd=ROOT
    )
    return Result(done.returncode, done.stdout, done.stderr)


def start(*arguments: str | Path, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start and return at once; in a process group of its own."""
    return subprocess.Popen(
        [TUTTI, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(extra),
        cwd=ROOT,
        start_new_session=True,
    )


@contextlib.contextmanager
def platform(data_dir: Path, *, agents: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A platform that is up and stopped at the end; who only looks needs no agent."""
    process = start("up", "--agents", str(agents), "--data-dir", data_dir)
    try:
        deadline = time.monotonic() + 60
        while not (data_dir / "endpoint").exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, "the platform was not up within 60 s"
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def tiny(data_dir: Path, pages: Path, *overrides: str, output: Sequence[str] = ("-o", "json")) -> list[str | Path]:
    """The arguments of a run of the tiny recipe over a folder of pages."""
    sets = [part for override in (f"input.path={pages}", *overrides) for part in ("--set", override)]
    return ["run", TINY, "--data-dir", data_dir, *sets, *output]


def checkpoints(summary: Mapping[str, Any]) -> dict[int, str]:
    """Step to state digest."""
    return {each["step"]: each["state_digest"] for each in summary["checkpoints"]}
