"""All processes of a platform, found by what they recorded and what they started; signalled by pid."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil


def family(data_dir: Path, *others: int) -> list[psutil.Process]:
    """The supervisor, its children and theirs, and `others` with theirs; those that have ended are none of them, also
    before their parent knows.
    """
    roots = set(others)
    with contextlib.suppress(OSError, ValueError, KeyError):
        record = json.loads((data_dir / "processes.json").read_text())
        roots |= {record["supervisor"]["pid"], *(child["pid"] for child in record["children"] if child["pid"])}
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                found[each.pid] = each
    for process in psutil.process_iter(["cmdline"]):
        if any(str(data_dir) in part for part in process.info["cmdline"] or ()):
            found.setdefault(process.pid, process)
    found.pop(os.getpid(), None)
    return [each for each in found.values() if not _has_ended(each)]


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def named(data_dir: Path, word: str) -> list[psutil.Process]:
    """Those of the family that have this word in their command line; not those that end while they are looked at."""
    found = []
    for each in family(data_dir):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has no command line either
            if word in each.cmdline():
                found.append(each)
    return found


def kill_all(data_dir: Path, *others: int) -> int:
    """Stop all, so that nobody reacts to another's death, then SIGKILL all; how many there were."""
    count = 0
    while alive := family(data_dir, *others):
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
        psutil.wait_procs(alive, timeout=10)
        count += len(alive)
    return count


LOOK_SECONDS = 0.05
PATIENCE = 4


def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Look closely until it holds, but for a fifth of the time at most: who is looked at needs the processor too.

    `seconds` is enough on an idle machine; a busy one has PATIENCE times as many. No moment is missed by more than
    LOOK_SECONDS and the look. AssertionError naming what never came.
    """
    seconds *= PATIENCE
    deadline, looked = time.monotonic() + seconds, time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < deadline, f"{what} did not come within {seconds:.0f} s"
        time.sleep(min(max(0.002, 4 * (now - looked)), LOOK_SECONDS))
        looked = time.monotonic()


def blobs(data_dir: Path, stage: str = "") -> int:
    """How many blobs are visible, of all or of the stage that owns them: the moments of a run."""
    folders = os.walk(data_dir / "blobs" / stage)
    # Shards and reports end with their node.
    return sum(name.endswith((".bin", ".json", ".parquet")) or "=" in name for _, _, names in folders for name in names)
