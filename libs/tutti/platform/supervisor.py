"""The supervisor: keeps a host and its agents running, and leaves nothing behind.

Promises: a child that exits or misses its heartbeats is restarted with exponential backoff. Each missed limit doubles,
so that a slow host does not kill a child for ever. A pause of the supervisor itself does not count as a missed
heartbeat. SIGTERM drains agents first, then the host, and kills those that are late. Children that a killed supervisor
left behind are ended before anything starts. Imports no gRPC.
"""

import argparse
import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from tutti.backbone.backoff import Backoff
from tutti.backbone.ours import close_to_others
from tutti.chassis.config import memory
from tutti.chassis.config.arguments import add_overrides, add_places
from tutti.chassis.config.datadir import PROCESSES, DataDir, DataDirError, DiskFull, InUse, NewerVersion
from tutti.chassis.config.exits import FAILED, IN_USE, KILLED, MISUSE, PREFIX, say
from tutti.chassis.config.sections import SupervisorSettings
from tutti.chassis.config.settings import SettingsError, load
from tutti.platform import interpreter, logs
from tutti.platform.heartbeatpipe import BEAT, EXAMINE, HeartbeatPipe, hold
from tutti.platform.heartbeattimeout import Doubling, HeartbeatTimeout
from tutti.platform.logfiles import LOG_BYTES, rotate
from tutti.platform.processes import AGENT, ProcessId, Recorded, end, gone, process_id, signal_group

log = logging.getLogger(__name__)
HOST = "host"
MOST_BACKOFF_SECONDS = 30.0
STEADY_SECONDS = 30.0  # a child that ran for so long starts over with the first backoff
LOOK_SECONDS = 0.05  # between two looks at whether the host is ready
START_LOOK_SECONDS = 0.2  # between two looks at who has started, while others wait for that
LISTEN_SECONDS = 1.0  # between two looks at who gave a word, at most
EXAMINE_SECONDS = 0.5  # for a child that hangs to write down where
LAST_WORDS_BYTES = 64 << 10


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True)
class ChildSpec:
    """`after`: started once this file of the data directory exists. `environment`: beside ours, for secrets."""

    name: str
    command: tuple[str, ...]
    after: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass
class Child:
    spec: ChildSpec
    state: State = State.WAITING
    id: ProcessId | None = None
    process: subprocess.Popen[bytes] | None = None
    pipe: HeartbeatPipe | None = None
    timeout: HeartbeatTimeout | None = None  # none with a child that is being killed
    limit: float = 0.0  # of its timeout, in seconds
    doubling: Doubling = field(default_factory=Doubling)
    spoken: bool = False  # its loop turns
    started_at: float = 0.0
    log_start: int = 0
    since: str = ""
    restarts: int = 0
    failures: int = 0
    due: float = 0.0
    exit: str = ""


@dataclass(frozen=True)
class _Ended:
    child: Child
    code: int


class Supervisor:
    """`specs` in the order of starting; those that start after others are stopped before them. Call `run` once."""

    def __init__(
        self, data_dir: DataDir, specs: Sequence[ChildSpec], settings: SupervisorSettings, *, log_bytes: int = LOG_BYTES
    ) -> None:
        self._data_dir, self._settings, self._log_bytes = data_dir, settings, log_bytes
        self._children = [Child(spec, doubling=Doubling(settings.most_silence_seconds)) for spec in specs]
        self._told: queue.SimpleQueue[_Ended | None] = queue.SimpleQueue()
        self._listen_seconds = min(LISTEN_SECONDS, min(settings.silence_seconds, settings.first_word_seconds) / 8)
        self._at_once = max(2, os.cpu_count() or 1)
        self._stopping = False
        self._been_ready = all(spec.name != HOST for spec in specs)

    def stop(self) -> None:
        """Let `run` return; for signal handlers and other threads."""
        self._stopping = True
        self._told.put(None)

    def run(self) -> int:
        """Until told to stop; the exit code."""
        self._end_orphans()
        self._withdraw_all()
        try:
            while not self._stopping:
                self._start_due()
                self._listen()
                self._rotate()
                told = self._next()
                if told is not None and (code := self._ended(told.child, told.code)):
                    return code
            return 0
        finally:
            self._stop_all()

    def kill(self) -> None:
        """SIGKILL to all, at once."""
        for child in self._children:
            if child.id is not None:
                child.id.signal_group(signal.SIGKILL)

    def _next(self) -> _Ended | None:
        """Wait for the next child that ends; None when something else may be due."""
        self._been_ready = self._been_ready or (self._data_dir.path / "endpoint").exists()
        waits = [child.due - time.monotonic() for child in self._children if child.state is State.WAITING]
        if any(child.timeout is not None and not child.spoken for child in self._children):
            waits = [START_LOOK_SECONDS] if waits else []
        waits += [] if self._been_ready else [LOOK_SECONDS]
        waits += [self._listen_seconds] if any(child.timeout for child in self._children) else []
        try:
            return self._told.get(timeout=max(min(waits), LOOK_SECONDS) if waits else None)
        except queue.Empty:
            return None

    def _start_due(self) -> None:
        """Start what is due, only so many at once: each imports for seconds, and its first word is limited in time."""
        starting = sum(child.timeout is not None and not child.spoken for child in self._children)
        for child in self._children:
            if starting >= self._at_once:
                return
            after = child.spec.after
            held = after is not None and not (self._data_dir.path / after).exists()
            if child.state is State.WAITING and child.due <= time.monotonic() and not held:
                self._start(child)
                starting += 1

    def _listen(self) -> None:
        """Kill children whose heartbeat timed out; their exit is reported as usual."""
        for child in self._children:
            if child.timeout is None or child.pipe is None:
                continue
            now, words = time.monotonic(), child.pipe.heard()
            if BEAT in words:
                falls_back = child.doubling.well(now)
                if not child.spoken or falls_back:
                    child.spoken = True
                    self._wait_for(child, self._settings.silence_seconds, now)
            if child.timeout.over(now, heard=bool(words)):
                self._give_up(child, now)

    def _wait_for(self, child: Child, seconds: float, now: float) -> None:
        """Expect the next word of the child within `seconds`, or more after limits that it missed."""
        child.limit = child.doubling.limit(seconds)
        child.timeout = HeartbeatTimeout(child.limit, now)

    def _give_up(self, child: Child, now: float) -> None:
        assert child.id is not None
        child.doubling.missed(now)
        child.timeout = None
        child.exit = f"no word for {child.limit:g} s" + (", stopped by a signal" if child.id.stopped() else "")
        log.warning("%s (process %d): %s; killed and restarted", child.spec.name, child.id.pid, child.exit)
        child.id.send(EXAMINE)
        if not child.id.stopped():
            gone(child.id, EXAMINE_SECONDS)
        child.id.signal_group(signal.SIGKILL)

    def _rotate(self) -> None:
        for child in self._children:
            try:
                if rotate(self._log_of(child), self._log_bytes):
                    child.log_start = 0
            except OSError as error:
                log.warning("the log of %s cannot be rotated: %s", child.spec.name, error)

    def _log_of(self, child: Child) -> Path:
        return self._data_dir.path / "logs" / f"{child.spec.name}.log"

    def _start(self, child: Child) -> None:
        child.pipe = pipe = HeartbeatPipe()
        with open(self._log_of(child), "ab") as output:
            child.log_start = output.seek(0, os.SEEK_END)
            process = interpreter.start(
                child.spec.command,
                {**pipe.environment(), **child.spec.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[pipe.descriptor],
                start_new_session=True,
            )
        pipe.given()
        child.process, child.id, child.state = process, process_id(process.pid), State.RUNNING
        child.started_at, child.since = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        child.spoken = False
        self._wait_for(child, self._settings.first_word_seconds, child.started_at)
        log.info("started %s as process %d", child.spec.name, process.pid)
        self._record()
        threading.Thread(
            target=lambda: self._told.put(_Ended(child, process.wait())), name=f"wait {child.spec.name}", daemon=True
        ).start()

    def _ended(self, child: Child, code: int) -> int:
        """Plan the next start; a code other than 0 when there is none to be hoped for."""
        assert child.id is not None
        signal_group(child.id.pid, signal.SIGKILL)  # what it left in its group
        killed = ""
        if child.timeout is not None:  # otherwise it was killed, and why is known
            child.exit = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            killed = f", {memory.KILLED}" if code == -signal.SIGKILL else ""
        child.state, child.process = State.WAITING, None
        _let_go(child)
        steady = time.monotonic() - child.started_at > STEADY_SECONDS
        child.failures = 1 if steady else child.failures + 1
        child.restarts += 1
        backoff = Backoff(self._settings.backoff_seconds, MOST_BACKOFF_SECONDS)
        child.due = time.monotonic() + backoff.drawn(child.failures)
        self._data_dir.remove("endpoint" if child.spec.name == HOST else f"endpoints/{child.spec.name}")
        wait = child.due - time.monotonic()
        log.warning("%s ended (%s%s); next start in %.1f s", child.spec.name, child.exit, killed, wait)
        self._record()
        if child.spec.name == HOST and code in (FAILED, MISUSE) and (code == MISUSE or not self._been_ready):
            return say(self._last_words(child), code)
        return 0

    def _last_words(self, child: Child) -> str:
        """The output of the child since it was started."""
        path = self._log_of(child)
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(child.log_start, size - LAST_WORDS_BYTES))
            lines = file.read(LAST_WORDS_BYTES).decode(errors="replace").splitlines()
        words = next((line.removeprefix(PREFIX) for line in reversed(lines) if line.startswith(PREFIX)), "")
        return words or f"{child.spec.name} ended with {child.exit}; look into {path}"

    def _stop_all(self) -> None:
        with contextlib.suppress(DiskFull):
            self._record()  # so that who is left without an answer learns why
        self._stop_together([child for child in self._children if child.spec.after is not None])
        self._stop_together([child for child in self._children if child.spec.after is None])
        self._withdraw_all()
        self._record()

    def _stop_together(self, children: Sequence[Child]) -> None:
        running = [(child, child.id, child.process) for child in children if child.id and child.process]
        for child, identity, _ in running:
            log.info("stopping %s", child.spec.name)
            identity.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + self._settings.drain_seconds
        for child, identity, process in running:
            if not gone(identity, deadline - time.monotonic()):
                log.warning("%s did not end within %.0f s: killed", child.spec.name, self._settings.drain_seconds)
                identity.signal_group(signal.SIGKILL)
            process.wait()
            signal_group(identity.pid, signal.SIGKILL)
            child.exit = child.exit or "stopped"
        for child in children:
            child.state, child.process = State.STOPPED, None
            _let_go(child)

    def _withdraw_all(self) -> None:
        """Withdraw the addresses of killed children, which could not do it; those of services before that of the
        platform.
        """
        for path in [self._data_dir.path / "endpoint", *(self._data_dir.path / "endpoints").iterdir()]:
            self._data_dir.remove(str(path.relative_to(self._data_dir.path)))

    def _end_orphans(self) -> None:
        for name, orphan in _recorded(self._data_dir.path / PROCESSES):
            if orphan.alive():
                log.warning("ending process %d, the %s of a killed supervisor", orphan.pid, name)
                end(orphan, self._settings.drain_seconds)

    def _record(self) -> None:
        children = [
            Recorded(
                child.spec.name,
                child.state.value,
                child.id.pid if child.id and child.process else 0,
                child.id.started if child.id and child.process else 0,
                child.since,
                child.restarts,
                child.exit,
            )
            for child in self._children
        ]
        mine = process_id(os.getpid())
        content = {
            "supervisor": asdict(mine),
            "stopping": self._stopping,
            "children": [asdict(each) for each in children],
        }
        try:
            self._data_dir.write(PROCESSES, json.dumps(content, indent=1).encode())
        except DiskFull as error:
            if not self._been_ready:
                raise
            log.warning("%s; running work continues, and waits where it has to write", error)


def platform(data_dir: DataDir, agents: int, command: Sequence[str], arguments: Sequence[str]) -> list[ChildSpec]:
    """A host with all services, and agents `a`, `b`, … that start once it is ready."""
    host = interpreter.module("tutti.platform.entry", "--data-dir", str(data_dir.path), *arguments)
    specs = [ChildSpec(HOST, tuple(host), environment=interpreter.of_many_threads(os.environ))]
    for index in range(agents):
        node = chr(ord("a") + index) if index < 26 else f"n{index}"
        agent = interpreter.filled(command, data_dir=data_dir.path, node=node)
        specs.append(ChildSpec(f"{AGENT}{node}", tuple(agent), after="endpoint"))
    return specs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -P -m tutti.platform.supervisor", description=__doc__)
    add_places(parser)
    add_overrides(parser)
    parser.add_argument("--agents", type=int, help="agents to run; the setting supervisor.agents")
    parser.add_argument("--listen", help="address of the one port; the setting rpc.listen")
    parser.add_argument("services", nargs="*", help="names, or name=package.module:build; all that are installed")
    arguments = parser.parse_args()
    close_to_others()
    overrides = [*arguments.set, *([f"rpc.listen={arguments.listen}"] if arguments.listen else [])]
    try:
        data_dir = DataDir(arguments.data_dir)
        lock = data_dir.lock("tutti up")
        logs.configure("supervisor", file=data_dir.path / "logs" / "supervisor.log")
        services = {each.partition("=")[0] for each in arguments.services} or None
        settings = load(arguments.config or data_dir.config, overrides=overrides, services=services).values.supervisor
        agents = settings.agents if arguments.agents is None else arguments.agents
        config = ["--config", str(arguments.config)] if arguments.config else []
        given = [*config, *(part for text in overrides for part in ("--set", text)), *arguments.services]
        supervisor = Supervisor(data_dir, platform(data_dir, agents, settings.agent_command, given), settings)
        _handle_signals(supervisor)
        hold(supervisor.stop)  # whoever started it for the time being may be killed; then it ends too
        code = supervisor.run()
        lock.release()
        return code
    except (SettingsError, NewerVersion) as error:
        return say(str(error), MISUSE)
    except InUse as error:
        return say(str(error), IN_USE)
    except (DataDirError, OSError) as error:
        return say(str(error), FAILED)


def _handle_signals(supervisor: Supervisor) -> None:
    told: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if told:
            supervisor.kill()
            os._exit(KILLED)
        told.append(number)
        supervisor.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _recorded(path: Path) -> list[tuple[str, ProcessId]]:
    try:
        children = json.loads(path.read_text())["children"]
        return [(each["name"], ProcessId(each["pid"], each["started"])) for each in children if each["pid"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _let_go(child: Child) -> None:
    if child.pipe is not None:
        child.pipe.close()
    child.pipe = child.timeout = None


if __name__ == "__main__":
    sys.exit(main())
