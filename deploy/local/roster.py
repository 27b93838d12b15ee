"""The roster of a stack: every process with its parent, since when it runs and how often it was started again.

Promises: read from what the keeper and its supervisor recorded and from the process table; changes nothing.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from processes import write_secret

KEPT = "servers/kept.json"
RECORD = "processes.json"


@dataclass(frozen=True)
class Kept:
    """A process that the keeper answers for; pid 0: it does not run."""

    name: str
    pid: int
    since: str
    restarts: int


@dataclass(frozen=True)
class Row:
    """`restarts` is None for a process that another one of the stack started; memory is its share (PSS)."""

    pid: int
    parent: int
    what: str
    since: str
    restarts: int | None
    memory: int


def write_kept(data_dir: Path, servers: Sequence[Kept]) -> None:
    write_secret(data_dir / KEPT, json.dumps([asdict(each) for each in servers]))


def keeper_of(data_dir: Path) -> psutil.Process | None:
    """The keeper, if it runs."""
    holder = _read(data_dir / "lock")
    with contextlib.suppress(psutil.NoSuchProcess, KeyError, TypeError):
        process = psutil.Process(holder["pid"])
        if process.status() != psutil.STATUS_ZOMBIE and "keep" in process.cmdline():
            return process
    return None


def kept(data_dir: Path) -> list[Kept]:
    """Servers, services and agents, in the order of starting."""
    servers = [Kept(**each) for each in _read(data_dir / KEPT) or []]
    record: dict[str, Any] = _read(data_dir / RECORD) or {"children": []}
    return servers + [Kept(each["name"], each["pid"], each["since"], each["restarts"]) for each in record["children"]]


def roster(data_dir: Path) -> list[Row]:
    """Every process of the stack: the keeper, what it keeps, and what those started."""
    found: list[Row] = []
    keeper = keeper_of(data_dir)
    if keeper is not None:
        found += _row(keeper, "keeper", None)
    for each in kept(data_dir):
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.pid:
                process = psutil.Process(each.pid)
                found += _row(process, each.name, each)
                for child in process.children(recursive=True):
                    found += _row(child, f"{_role(child)} of {each.name}", None)
    return found


def _row(process: psutil.Process, what: str, kept: Kept | None) -> Iterator[Row]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        if process.status() == psutil.STATUS_ZOMBIE:
            return
        started = datetime.fromtimestamp(process.create_time(), UTC).isoformat(timespec="seconds")
        memory = process.memory_full_info().pss
        yield Row(process.pid, process.ppid(), what, started, kept.restarts if kept else None, memory)


def _role(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        words, parent = process.cmdline(), process.parent()
        if parent is not None and "tutti.trainer.rank.forkserver" in parent.cmdline():
            return "rank"
        if "-m" in words:
            return words[words.index("-m") + 1].rpartition(".")[2]
        if any("spawn_main" in word for word in words):
            return "pool worker"
        if any("tracker" in word for word in words):
            return "resource tracker"
        return words[0].split()[0].rstrip(":").rpartition("/")[2] if words else process.name()
    return "process"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
