"""Processes of the local stack: started in their own session, known by pid and start time, stopped by pid.

Promises: a pid that was given to another process since is never signalled; what does not stop in time is killed.
"""

import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import psutil

STOP_SECONDS = 20.0
# Below the range from which the kernel takes the ports of outgoing connections.
PORTS = range(21_000, 31_000)


class ServerError(Exception):
    """A server cannot be had, or did not start; the message says what to do."""


class PortTaken(ServerError):
    """Another process was faster: pick again."""


def tell(what: str) -> None:
    """Say on stderr what takes its time."""
    print(what, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Account:
    """Whom a process runs as; None where it is the caller."""

    name: str
    uid: int
    gid: int

    @classmethod
    def unprivileged(cls, *names: str) -> "Account | None":
        """The first of these accounts when the caller is root."""
        if os.getuid() != 0:
            return None
        for name in names:
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(name, found.pw_uid, found.pw_gid)
        raise ServerError(f"none of the accounts {', '.join(names)} exists, and root may not run this server")


@dataclass(frozen=True)
class Process:
    pid: int
    started: float

    def is_alive(self) -> bool:
        try:
            found = psutil.Process(self.pid)
            return abs(found.create_time() - self.started) < 0.05 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def stop(self, first: signal.Signals) -> None:
        """Ask, wait, then kill."""
        for sign in (first, signal.SIGKILL):
            if not self.is_alive():
                return
            os.kill(self.pid, sign)
            if wait_until(lambda: not self.is_alive(), STOP_SECONDS):
                return
        raise ServerError(f"process {self.pid} does not stop, not even by SIGKILL")


def start(
    command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str], account: Account | None = None
) -> Process:
    """Start a process that outlives this one."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **environment},
            **_as(account),
        )
    return Process(child.pid, psutil.Process(child.pid).create_time())


def run(
    command: Sequence[str | Path],
    *,
    account: Account | None = None,
    seconds: float | None = 600,
    folder: Path = Path("/"),
) -> None:
    """Run to the end in `folder`; its output is shown only when it fails. Raises ServerError, also when it has not
    ended after `seconds`."""
    try:
        result = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=folder,
            **_as(account),
        )
    except subprocess.TimeoutExpired as error:
        raise ServerError(f"{command[0]} has not ended after {seconds} s") from error
    if result.returncode != 0:
        shown = (result.stdout + result.stderr)[-2000:]
        raise ServerError(f"{command[0]} failed with {result.returncode}:\n{shown}")


def save(path: Path, process: Process) -> None:
    path.write_text(json.dumps({"pid": process.pid, "started": process.started}))


def load(path: Path) -> Process | None:
    try:
        found = json.loads(path.read_text())
        return Process(found["pid"], found["started"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def write_secret(path: Path, text: str) -> None:
    """Replace a file that only its owner may read."""
    beside = path.with_suffix(".new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    beside.replace(path)


def free_port() -> int:
    """A port that nobody has right now; whoever uses it must cope with having lost it."""
    first = (os.getpid() * 7919 + time.monotonic_ns()) % len(PORTS)
    for step in range(len(PORTS)):
        port = PORTS[(first + step * 17) % len(PORTS)]
        if is_free(port):
            return port
    raise ServerError(f"no free port between {PORTS.start} and {PORTS.stop} on 127.0.0.1")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def lives_in(folder: Path) -> bool:
    """Whether a process has this folder as its working folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder):
                return True
    return False


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.03)
    return True


class _As(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _as(account: Account | None) -> _As:
    return _As() if account is None else _As(user=account.uid, group=account.gid, extra_groups=[])
