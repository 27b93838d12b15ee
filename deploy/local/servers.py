"""Real Kafka, Postgres and S3 servers on this machine, without Docker.

Promises: `up` is idempotent and returns when every server answers; data and secrets live below `--dir` and survive
`down`, `restart` and kill -9; `down` signals only processes that it started.

    python deploy/local/servers.py obtain|up|down|status|wipe [NAME ...] [--dir DIR] [-o json]
    python deploy/local/servers.py up --replicated [--dir DIR]
    python deploy/local/servers.py restart NAME ... [--dir DIR]
"""

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Protocol

import processes
from broker import Broker
from gateway import Gateway
from layout import BROKERS, Layout, replicate
from postgres import Postgres
from processes import Process, ServerError, wait_until, write_secret

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "servers"
READY_SECONDS = 60.0
"""The time of the first of ATTEMPTS to start a server. Each next attempt has twice the time: 15 minutes together."""
LOOK_SECONDS = 1.0
PORT_SECONDS = 10.0
ATTEMPTS = 4


class Server(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def stop_signal(self) -> Signals: ...

    def obtain(self, *, install: bool) -> None:
        """Make the program available. Raises ServerError with the way to get it."""
        ...

    def settings(self, old: dict[str, str]) -> dict[str, str]:
        """Ports and secrets: the old ones where they can still be had."""
        ...

    def start(self, folder: Path, settings: dict[str, str]) -> Process: ...

    def is_ready(self, settings: dict[str, str]) -> bool: ...

    def recovers(self, settings: dict[str, str]) -> bool:
        """Return true if the server answers that it recovers; a restart would begin the recovery again."""
        ...

    def url(self, settings: dict[str, str]) -> str: ...

    def wipe(self, folder: Path) -> None:
        """Remove all its data."""
        ...


@dataclass(frozen=True)
class Status:
    name: str
    state: str
    pid: int | None
    url: str | None
    log: str


class Stack:
    """The servers whose data lie below one folder."""

    def __init__(self, folder: Path, *, cache: Path = CACHE) -> None:
        self._folder = folder.resolve()
        self._cache = cache
        self._layout = Layout.read(self._folder)
        self._servers: dict[str, Server] = {server.name: server for server in self._made()}

    def _made(self) -> Iterator[Server]:
        if self._layout is None:
            yield Broker(self._cache)
        else:
            yield from (Broker(self._cache, self._layout, number) for number in range(len(BROKERS)))
        yield from (Postgres(), Gateway(self._cache))

    @property
    def names(self) -> list[str]:
        return list(self._servers)

    def obtain(self, names: Sequence[str], *, install: bool) -> None:
        """Make the programs available; start nothing. Raises ServerError with the way to get them."""
        with _locked(self._cache / "lock"):
            for name in names:
                self._servers[name].obtain(install=install)

    def up(self, names: Sequence[str], *, install: bool) -> None:
        self.obtain(names, install=install)
        self._start(names)

    def process(self, name: str) -> Process | None:
        """The process that was started last."""
        return processes.load(self._folder / name / "pid.json")

    def _start(self, names: Sequence[str]) -> None:
        with self._starts(names):
            starting = {name: self._recovering(name) or self._begin(name) for name in names if not self._is_up(name)}
            for name, process in starting.items():
                self._settle(name, process)

    @contextmanager
    def _starts(self, names: Sequence[str]) -> Iterator[None]:
        try:
            with self._mine(names):
                yield
        except OSError as error:  # such as a full disk
            raise ServerError(f"{', '.join(names)} cannot be started: {error}") from error

    def down(self, names: Sequence[str]) -> None:
        with self._mine(names):
            for name in names:
                self._stop(name)

    def restart(self, names: Sequence[str]) -> None:
        self.down(names)
        self.up(names, install=False)

    def wipe(self, names: Sequence[str]) -> None:
        with self._mine(names):
            for name in names:
                if (self._folder / name).exists():
                    self._stop(name)
                    self._servers[name].wipe(self._folder / name)

    def is_alive(self, name: str) -> bool:
        """Whether its process runs; whether it answers is for `status`."""
        process = self.process(name)
        return process is not None and process.is_alive()

    def kill(self, name: str) -> int:
        """SIGKILL, as a crash would; the pid, 0 when it was dead already."""
        process = processes.load(self._folder / name / "pid.json")
        if process is None or not process.is_alive():
            return 0
        os.kill(process.pid, Signals.SIGKILL)
        return process.pid

    def status(self, names: Sequence[str]) -> list[Status]:
        return [self._status(name) for name in names]

    def _begin(self, name: str) -> Process:
        self._stop(name)  # alive, but not answering
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        server = self._servers[name]
        old = self._settings(name)
        if old:  # the ports of a killed process are given back a moment after its death
            wait_until(lambda: server.settings(old) == old, PORT_SECONDS)
        settings = server.settings(old)
        write_secret(folder / "server.json", json.dumps(settings))
        process = server.start(folder, settings)
        try:
            processes.save(folder / "pid.json", process)
        except OSError:
            process.stop(Signals.SIGKILL)  # nobody would know of it
            raise
        return process

    def _settle(self, name: str, process: Process) -> None:
        """Wait until it answers, for a limited time after it last said that it recovers; a port that was lost, or
        remains of a killed server, are worth another attempt."""
        server = self._servers[name]
        for limit in (READY_SECONDS * 2**attempt for attempt in range(ATTEMPTS)):
            settings = self._settings(name)
            settled = partial(_has_settled, server, settings, process)
            deadline = time.monotonic() + limit
            while not wait_until(settled, LOOK_SECONDS):
                if server.recovers(settings):
                    deadline = time.monotonic() + limit
                elif time.monotonic() > deadline:
                    break
            if process.is_alive() and server.is_ready(settings):
                return
            wait_until(lambda: False, 0.5)
            process = self._begin(name)
        self._stop(name)
        log = self._folder / name / "log"
        raise ServerError(f"{name} does not start; the end of {log}:\n{log.read_text(errors='replace')[-1500:]}")

    def _stop(self, name: str) -> None:
        record = self._folder / name / "pid.json"
        process = processes.load(record)
        if process is not None:
            process.stop(self._servers[name].stop_signal)
            record.unlink()

    def _recovering(self, name: str) -> Process | None:
        """Its process, if that recovers."""
        process = self.process(name)
        lives = process is not None and process.is_alive()
        return process if lives and self._servers[name].recovers(self._settings(name)) else None

    def _is_up(self, name: str) -> bool:
        return self._status(name).state == "up"

    def _status(self, name: str) -> Status:
        process = processes.load(self._folder / name / "pid.json")
        settings = self._settings(name)
        server = self._servers[name]
        alive = process is not None and process.is_alive()
        state = "down" if not alive else "up" if server.is_ready(settings) else "silent"
        return Status(
            name=name,
            state=state,
            pid=process.pid if process is not None and alive else None,
            url=server.url(settings) if alive or (settings and self._layout) else None,  # a layout's ports stay
            log=str(self._folder / name / "log"),
        )

    def _settings(self, name: str) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads((self._folder / name / "server.json").read_text())
            return found
        except FileNotFoundError:
            return {}

    @contextmanager
    def _mine(self, names: Sequence[str]) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as locks:
            for name in sorted(names):
                locks.enter_context(_locked(self._folder / f"{name}.lock"))
            yield


def _has_settled(server: Server, settings: dict[str, str], process: Process) -> bool:
    return server.is_ready(settings) or not process.is_alive()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="servers.py", description="Kafka, Postgres and S3 servers without Docker.")
    parser.add_argument("command", choices=["obtain", "up", "down", "status", "restart", "wipe"])
    parser.add_argument("names", nargs="*", metavar="NAME", help="kafka, postgres, s3 (default: all)")
    parser.add_argument("--dir", type=Path, default=CACHE / "stack", help="where data and secrets live")
    parser.add_argument("--install", action="store_true", help="as root, install system packages that are missing")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    parser.add_argument("--replicated", action="store_true", help="three brokers, in a new folder")
    given = parser.parse_intermixed_args(arguments)
    try:
        if given.replicated:
            replicate(given.dir.resolve())
        stack = Stack(given.dir)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    names = given.names or stack.names
    if unknown := set(names) - set(stack.names):
        parser.error(f"unknown server {sorted(unknown)[0]!r}: expected {', '.join(stack.names)}")
    try:
        install = given.install or bool(os.environ.get("CI"))
        if given.command == "obtain":
            stack.obtain(names, install=install)
        elif given.command == "up":
            stack.up(names, install=install)
        elif given.command == "down":
            stack.down(names)
        elif given.command == "restart":
            stack.restart(names)
        elif given.command == "wipe":
            stack.wipe(names)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    found = stack.status(names)
    if given.output == "json":
        print(json.dumps([asdict(status) for status in found], indent=2))
    else:
        for status in found:
            print(f"{status.name:10} {status.state:7} {status.pid or '-':>8}  {_without_secret(status.url)}")
    return 0


def _without_secret(url: str | None) -> str:
    """For people's eyes; `-o json` has the whole URL."""
    if url is None or "@" not in url:
        return url or ""
    scheme, _, rest = url.partition("://")
    user, _, host = rest.rpartition("@")
    return f"{scheme}://{user.split(':')[0]}:***@{host}"


if __name__ == "__main__":
    sys.exit(main())
