"""The keeper: one process whose children are the servers, every service and the agents of a data directory.

Promises: what dies is started again (a server within about a second, at its old address); SIGTERM stops agents, then
services, then servers, each by its pid; no secret stands in a command line.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from accounts import keys, roles, tokens, users, verifying
from processes import ServerError
from roster import Kept, write_kept
from servers import Stack

from tutti.backbone.blobs import BlobError
from tutti.backbone.eventlog import EventLogError
from tutti.backbone.s3.users import agent
from tutti.chassis.config.datadir import DataDir, DataDirError, part_of
from tutti.chassis.config.exits import FAILED, KILLED, MISUSE, say
from tutti.chassis.config.settings import SettingsError, installed_services, load
from tutti.platform import interpreter, logs
from tutti.platform.supervisor import ChildSpec, Supervisor

LOOK_SECONDS, AGAIN_SECONDS = 0.2, 1.0
MOST_CONNECTIONS = 80
"""To Postgres, of all replicas; its default is 100."""
log = logging.getLogger(__name__)


def keep(path: Path, *, agents: int, copies: int, copied: Sequence[str]) -> int:
    """Run the stack of a data directory until SIGTERM or SIGINT; the exit code."""
    try:
        data_dir = DataDir(path)
        lock = data_dir.lock("the keeper of a stack")
        logs.configure("keeper", file=data_dir.path / "logs" / "keeper.log")
        settings = load(data_dir.config).values.supervisor
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(KILLED))  # until there is a supervisor to be told
        servers = KeptServers(data_dir)
        try:
            servers.start()
            supervisor = Supervisor(data_dir, children(data_dir, servers.urls, agents, copies, copied), settings)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: supervisor.stop())
            servers.watch(on_moved=supervisor.stop)
            code = supervisor.run()
        finally:
            servers.stop()
        lock.release()
        return say(servers.moved, FAILED) if servers.moved else code
    except SettingsError as error:
        return say(str(error), MISUSE)
    except (DataDirError, ServerError, EventLogError, BlobError, OSError) as error:
        return say(str(error), FAILED)


def replicas(copies: int, copied: Sequence[str]) -> list[tuple[str, int]]:
    """Each process of a service with its number: `copies` of those in `copied` (empty: of all), one of others."""
    services = installed_services()
    several = set(copied) or set(services)
    return [(service, copy) for copy in range(1, copies + 1) for service in services if copy == 1 or service in several]


def children(
    data_dir: DataDir, urls: Mapping[str, str], agents: int, copies: int = 1, copied: Sequence[str] = ()
) -> list[ChildSpec]:
    """The replicas of services, with the credentials of their service, then agents, with those of their node."""
    services = installed_services()
    servers = data_dir.path / "servers"
    databases = roles(urls["postgres"], services, servers / "roles.json")
    logs_of = users(urls["kafka"], services, servers / "users.json")
    nodes = [chr(ord("a") + index) for index in range(agents)]
    blobs_of = keys(urls["s3"], servers / "s3", servers / "keys.json", nodes)
    every = data_dir.tokens()
    tokens_of, of_services = tokens(every, nodes, servers), verifying(every, servers)
    connections = (
        {} if copies == 1 else {"TUTTI_DATABASE__CONNECTIONS": str(MOST_CONNECTIONS // len(replicas(copies, copied)))}
    )
    specs = [
        ChildSpec(
            part_of(service, copy) or service,
            tuple(interpreter.module(f"tutti.{service}", "--data-dir", str(data_dir.path), "--copy", str(copy))),
            environment={
                **connections,
                "TUTTI_BLOBS__URL": blobs_of[service],
                "TUTTI_LOG__URL": logs_of[service],
                "TUTTI_DATABASE__URL": databases[service],
                "TUTTI_RPC__TOKENS": str(of_services),
            },
        )
        for service, copy in replicas(copies, copied)
    ]
    for node in nodes:
        command = tuple(interpreter.module("tutti.trainer", "--data-dir", str(data_dir.path), "--node", node))
        given = {"TUTTI_BLOBS__URL": blobs_of[agent(node)], "TUTTI_RPC__TOKENS": str(tokens_of[node])}
        specs.append(ChildSpec(agent(node), command, after="endpoints/scheduler", environment=given))
    return specs


class KeptServers:
    """The servers of a data directory. `urls` by name; `moved` says why the stack cannot go on, if so."""

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._stack = Stack(data_dir.path / "servers")
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._recording = threading.Lock()
        self._restarts = dict.fromkeys(self._stack.names, 0)
        self._since: dict[str, str] = {}
        self.urls: dict[str, str] = {}
        self.moved = ""

    def start(self) -> None:
        """Raises ServerError."""
        self._stack.up(self._stack.names, install=bool(os.environ.get("CI")))
        self.urls = self._found()
        self._since = dict.fromkeys(self._stack.names, _now())
        self._record()

    def watch(self, on_moved: Callable[[], None]) -> None:
        """A thread a server, so that one that is slow to start keeps no other waiting."""
        for name in self._stack.names:
            thread = threading.Thread(target=self._watch, args=(name, on_moved), name=f"watch {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._stack.down(self._stack.names)
        self._record()

    def _watch(self, name: str, on_moved: Callable[[], None]) -> None:
        while not self._stop.wait(LOOK_SECONDS) and not self.moved:
            try:
                if not self._stack.is_alive(name):
                    self._restart(name)
                    if self.moved:
                        on_moved()
            except (ServerError, OSError) as error:  # such as a full disk
                log.error("%s, to be tried again: %s", name, error)
                self._stop.wait(AGAIN_SECONDS)

    def _restart(self, name: str) -> None:
        began = time.monotonic()
        log.warning("%s is dead: starts it again", name)
        self._stack.up([name], install=False)
        self._restarts[name] += 1
        self._since[name] = _now()
        self._record()
        log.info("%s answers again after %.1f s", name, time.monotonic() - began)
        if self._found()[name] != self.urls[name]:
            self.moved = f"{name} lost its port to another process: start the stack again, it goes on where it was"

    def _found(self) -> dict[str, str]:
        return {status.name: status.url or "" for status in self._stack.status(self._stack.names)}

    def _record(self) -> None:
        with self._recording:
            kept = [
                Kept(status.name, status.pid or 0, self._since[status.name], self._restarts[status.name])
                for status in self._stack.status(self._stack.names)
                if status.name in self._since
            ]
            write_kept(self._data_dir.path, kept)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
