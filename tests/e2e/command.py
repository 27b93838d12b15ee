"""The `tutti` command as a person runs it: its arguments, its output, its exit code.

Guarantees: `tutti` runs the command in this process, from the arguments to the exit code, which saves the imports of a
process (about 1 s). Whoever tests signals, pipes or the process itself uses `run_process` or `start`.
"""

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "recipes" / "tiny.yaml"
READY_SECONDS = 240
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


@functools.cache
def _tree() -> click.Group:
    from tutti.cli.app import build

    return build()


@contextlib.contextmanager
def _as_process(arguments: Sequence[str], extra: Mapping[str, str] | None) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Give a command the arguments, environment, streams and signal handlers of a process; restore ours at the end."""
    out, err = io.BytesIO(), io.BytesIO()
    before = dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    streams = sys.argv, sys.stdin, sys.stdout, sys.stderr
    with (
        open(os.devnull) as nothing,
        io.TextIOWrapper(out, "utf-8", write_through=True) as stdout,
        io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True) as stderr,
    ):
        sys.argv, sys.stdin, sys.stdout, sys.stderr = [TUTTI, *arguments], nothing, stdout, stderr
        wanted = environment(extra)
        os.environ.clear()
        os.environ.update(wanted)
        try:
            yield out, err
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = streams
            os.environ.clear()
            os.environ.update(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


def tutti(*arguments: str | Path, seconds: float = 800.0, extra: Mapping[str, str] | None = None) -> Result:
    """Run a command to its end in this process, or in one of its own from a thread, where signals cannot be handled.

    `seconds` limit the latter alone; a command in this process has the limit of its test.
    """
    if threading.current_thread() is not threading.main_thread():
        return run_process(*arguments, seconds=seconds, extra=extra)
    from tutti.cli.failures import guarded

    code: object = None
    with _as_process(list(map(str, arguments)), extra) as (out, err):
        try:
            guarded(lambda: _tree()(standalone_mode=False))
        except SystemExit as end:
            code = end.code
        shown, said = out.getvalue().decode(), err.getvalue().decode()
    assert isinstance(code, int)
    return Result(code, shown, said)


def run_process(
    *arguments: str | Path, seconds: float = 800.0, extra: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> Result:
    """Run a command to its end as a process; `before` is a command that runs it."""
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
def platform(
    data_dir: Path, *, agents: int = 1, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A platform that is up and stopped at the end; who only looks needs no agent."""
    process = start("up", "--agents", str(agents), "--data-dir", data_dir, extra=extra)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not (data_dir / "endpoint").exists():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline, f"the platform was not up within {READY_SECONDS} s"
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=400)


def tiny(data_dir: Path, pages: Path, *overrides: str, output: Sequence[str] = ("-o", "json")) -> list[str | Path]:
    """The arguments of a run of the tiny recipe over a folder of pages."""
    sets = [part for override in (f"input.path={pages}", *overrides) for part in ("--set", override)]
    return ["run", TINY, "--data-dir", data_dir, *sets, *output]


def checkpoints(summary: Mapping[str, Any]) -> dict[int, str]:
    """Step to state digest."""
    return {each["step"]: each["state_digest"] for each in summary["checkpoints"]}
