"""The agent's program: a state folder of its own, the real ports, the loop, signals.

One agent a node: the folder is locked. What a former agent of the node left running is ended before anything starts.
"""

import argparse
import contextlib
import logging
import re
import select
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from tutti.backbone import SystemClock, SystemRandomness, uuid7
from tutti.backbone.files import RealFiles, make_folders
from tutti.backbone.ours import close_to_others
from tutti.chassis.config import memory
from tutti.chassis.config.arguments import add_overrides, add_places
from tutti.chassis.config.datadir import DataDir, tokens_at
from tutti.chassis.config.exits import FAILED, say
from tutti.chassis.config.sections import Section
from tutti.chassis.config.settings import Loaded, SettingsError, load
from tutti.chassis.identity.auth import Role
from tutti.chassis.metrics import MetricsServer, count_logs, metrics
from tutti.chassis.rpc.channel import RpcChannel
from tutti.chassis.rpc.locator import locate
from tutti.chassis.rpc.tls import tls_of
from tutti.chassis.rpc.watch import Watch
from tutti.chassis.runtime import sharedmemory
from tutti.chassis.runtime.healthfile import HealthFile, health_path
from tutti.chassis.runtime.signals import Signals, Stop
from tutti.chassis.telemetry import configure_tracing, flush_tracing
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub
from tutti.contracts.scheduler.v1 import Node
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.model.device import NAMES, is_device
from tutti.model.machine import machine_signature
from tutti.platform import heartbeatpipe, logs
from tutti.platform.disk import Disk
from tutti.platform.failures import guarded
from tutti.trainer.agent.addresses import moved, of_this_machine, resolved
from tutti.trainer.agent.agent import Agent, AgentState
from tutti.trainer.agent.backgroundcalls import ThreadedCalls
from tutti.trainer.agent.iolink import ProcessIoLink
from tutti.trainer.agent.journal import Journal
from tutti.trainer.agent.launcher import ProcessLauncher
from tutti.trainer.agent.machine import machine
from tutti.trainer.agent.ports import AgentSettings
from tutti.trainer.io.buffers import buffer_folder, own, remove, sweep
from tutti.trainer.io.iosettings import IoSettings

log = logging.getLogger(__name__)

NODE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LOOP_SECONDS = 0.1
HEALTH_SECONDS = 2.0
NODES = "agents"
SLOTS = 8  # as many as a step has leaves by default


class TrainerSettings(Section):
    """The `[trainer]` table: what only agents need."""

    address: str = Field(
        default="127.0.0.1", description="IP address or host name at which ranks of other nodes reach this node"
    )
    drain_seconds: float = Field(default=8.0, gt=0, description="timeout for ranks to stop at a step boundary")
    staging_seconds: float = Field(
        default=600.0, gt=0, description="timeout of ranks that wait for other nodes to stage data"
    )
    stall_seconds: float = Field(
        default=300.0, gt=0, description="time without progress of any rank after which flight records are collected"
    )
    poll_seconds: float = Field(
        default=10.0, gt=0, description="interval of polling the node, in addition to its watch"
    )


class BadNode(SettingsError):
    """The arguments describe no node."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent until it is told to stop; the exit code."""
    given = _parser().parse_args(arguments)
    close_to_others()
    return guarded(lambda: _serve(given), troubles=(RuntimeError,))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -P -m tutti.trainer", description="The agent of a node.")
    add_places(parser)
    add_overrides(parser)
    parser.add_argument("--node", default="a", help="name of the node, one agent each")
    parser.add_argument(
        "--slots",
        type=int,
        help=f"ranks that may run here ({SLOTS}); they may share cores",
    )
    parser.add_argument("--device", action="append", default=[], help=f"{NAMES}, one a slot; cpu unless given")
    parser.add_argument("--address", help="address by which ranks of other nodes reach this one")
    return parser


def _serve(given: argparse.Namespace) -> int:
    data_dir = DataDir(given.data_dir)
    loaded = load(given.config or data_dir.config, overrides=given.set)
    settings = _settings(given, loaded)
    logs.configure(f"agent-{settings.node}", loaded.values.telemetry.level)
    count_logs()
    configure_tracing(f"agent-{settings.node}", sample_ratio=loaded.values.telemetry.sample_ratio)
    files, clock = RealFiles(), SystemClock()
    state = data_dir.path / NODES / settings.node
    make_folders(files, state)
    with contextlib.ExitStack() as stack:
        stack.callback(data_dir.lock(f"agent {settings.node}", f"{NODES}/{settings.node}/lock").release)
        settings = replace(settings, folder=data_dir.instance(f"agent-{settings.node}"))
        journal = Journal(state / "journal.json", files)
        journal.kill_orphans()
        buffers = buffer_folder(state)
        sweep(files)
        stack.callback(own(buffers, state, files).release)
        stack.callback(remove, buffers)
        stop = Stop()
        Signals(stop)
        heartbeat = heartbeatpipe.hold(lambda: stop.set("its supervisor is gone"))
        channels = _Channels(data_dir, loaded)
        stack.callback(channels.close)
        background, launcher = ThreadedCalls(), ProcessLauncher()
        watch = Watch(channels.to("scheduler"), settings.name, lambda revision, node: background.wake(), Node).start()
        io = ProcessIoLink(
            IoSettings(
                node=settings.node,
                blobs=loaded.values.blobs.url or data_dir.blobs_url,
                state=str(state),
                buffers=str(buffers),
                spool=loaded.values.rank.spool_snapshots,
            ),
            clock,
            silence=settings.silence,
        )
        agent = Agent(
            settings,
            incarnation=uuid7(clock, SystemRandomness()),
            scheduler=SchedulerServiceStub(channels.to("scheduler")),
            committer=CommitterServiceStub(channels.to("committer")),
            sampling=ExperienceServiceStub(channels.to("sampling")),
            background=background,
            clock=clock,
            launcher=launcher,
            io=io,
            journal=journal,
            watch=lambda: seen[1] if (seen := watch.latest()) else None,
        )
        stack.callback(agent.close)
        stack.callback(flush_tracing)
        _expose(settings, data_dir, loaded)
        health = _Health(HealthFile(health_path(data_dir.path, f"agent-{settings.node}")), clock)
        named = settings.address != (given.address or loaded.section("trainer", TrainerSettings).address)
        filenos = [background.filenos, launcher.filenos, io.filenos]
        return _turn(agent, stop, heartbeat, health, filenos, settings.address if named else "")


def _expose(settings: AgentSettings, data_dir: DataDir, loaded: Loaded) -> None:
    """Serve the metrics of this process, and log what it has."""
    metrics.collect(Disk(data_dir.path))
    scraped = MetricsServer(loaded.values.telemetry.metrics_listen)
    data_dir.write(f"endpoints/agent-{settings.node}.metrics", f"{scraped.address}\n".encode())
    log.info("the agent of %s has %d slots", settings.name, settings.slots)
    try:
        log.info("%s", sharedmemory.tried())
    except sharedmemory.Lacking as lacking:
        log.warning("%s", lacking)


class _Health:
    """The health file, written every few turns of the loop."""

    def __init__(self, file: HealthFile, clock: SystemClock) -> None:
        self._file, self._clock, self._next = file, clock, 0.0

    def due(self) -> bool:
        return self._clock.monotonic() >= self._next

    def tell(self, reason: str) -> None:
        self._next = self._clock.monotonic() + HEALTH_SECONDS
        self._file.write(reason)


def _turn(
    agent: Agent,
    stop: Stop,
    heartbeat: heartbeatpipe.Heartbeat,
    health: _Health,
    filenos: Sequence[Callable[[], Sequence[int]]],
    address: str,
) -> int:
    """Turn the loop of the agent until it is done; the exit code.

    The agent drains when `stop` is set, or when `address`, resolved from a name, is no address of this machine any
    more; it may be empty.
    """
    while agent.state is not AgentState.DONE:
        heartbeat.beat()
        if health.due():
            health.tell("" if agent.state is AgentState.SERVING else agent.state.value)
            if address and moved(address, of_this_machine()):
                stop.set(f"{address} is no address of this machine any more; the next start resolves it anew")
        if stop.is_set() and agent.state in (AgentState.REGISTERING, AgentState.SERVING):
            log.info("the agent stops: %s", stop.reason)
            agent.drain()
        if not agent.step():
            waiting = [*(each for found in filenos for each in found()), stop.fileno()]
            select.select(waiting, [], [], LOOP_SECONDS)
            stop.clear()
    if agent.refused:
        return say(agent.refused, FAILED)
    return FAILED if agent.superseded else 0


def _settings(given: argparse.Namespace, loaded: Loaded) -> AgentSettings:
    """Raises BadNode, SettingsError."""
    values, own = loaded.values, loaded.section("trainer", TrainerSettings)
    if not NODE.fullmatch(given.node):
        raise BadNode(f"--node {given.node!r}: expected lower-case letters, digits and ._- such as a or gpu-7")
    slots = given.slots if given.slots is not None else max(len(given.device), SLOTS)
    devices = tuple(given.device) or ("cpu",)
    if slots < 1:
        raise BadNode(f"--slots {slots}: expected at least 1")
    for device in devices:
        if not is_device(device):
            raise BadNode(f"--device {device!r}: expected {NAMES}")
    if len(devices) > slots:
        raise BadNode(f"{len(devices)} devices for {slots} slots: expected at most one a slot")
    try:
        address = resolved(given.address or own.address)
    except ValueError as error:
        raise BadNode(f"--address {error}") from None
    return AgentSettings(
        node=given.node,
        slots=slots,
        devices=devices,
        address=address,
        kernel=machine_signature(devices).digest(),
        machine=machine(),
        memory_bytes=memory.machine_bytes() if all(device == "cpu" for device in devices) else 0,
        silence=values.rank.watchdog_seconds,
        rendezvous=values.rank.rendezvous_seconds,
        staging=own.staging_seconds,
        heartbeat=values.lease.renew_seconds,
        buffers=values.rank.snapshot_buffers,
        stall=own.stall_seconds,
        drain=own.drain_seconds,
        relook=own.poll_seconds,
    )


def _token(data_dir: DataDir, file: str) -> str:
    """The token that proves that this is an agent. Raises NotUsable."""
    return (tokens_at(Path(file), [Role.AGENT]) if file else data_dir.tokens()).of(Role.AGENT)


class _Channels:
    """One channel a service, made when it is first asked for."""

    def __init__(self, data_dir: DataDir, loaded: Loaded) -> None:
        self._data_dir, self._values = data_dir, loaded.values
        self._token = _token(data_dir, loaded.values.rpc.tokens)
        self._tls = tls_of(loaded.values.tls)
        self._made: dict[str, RpcChannel] = {}

    def to(self, service: str) -> RpcChannel:
        if service not in self._made:
            rpc = self._values.rpc
            self._made[service] = RpcChannel(
                lambda: locate(service, self._values.services, self._data_dir.path),
                token=self._token,
                deadline_seconds=rpc.deadline_seconds,
                attempts=1,
                max_message_bytes=rpc.max_message_bytes,
                tls=self._tls,
            )
        return self._made[service]

    def close(self) -> None:
        for channel in self._made.values():
            channel.close()
