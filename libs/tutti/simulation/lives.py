"""Lives: a service or an agent between its start and its crash.

Promises: what a life was given leads to the world's ports with faults; nothing but the world outlives it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import grpc
from sqlalchemy import MetaData, Table

from tutti.backbone import Blobs, Clock, Randomness, SeededRandomness
from tutti.backbone.files import Files
from tutti.chassis.config.settings import Loaded
from tutti.chassis.config.settings import Settings as PlatformSettings
from tutti.chassis.delivery.consumer import Consumer
from tutti.chassis.delivery.inbox import Inbox
from tutti.chassis.delivery.relay import Relay
from tutti.chassis.errors import NotFound
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.references import check_blob
from tutti.chassis.runtime.parts import Parts, assemble
from tutti.chassis.service import Build, Loop, Service
from tutti.chassis.store.tables import shared
from tutti.chassis.store.unit import Units
from tutti.chassis.tasks import Pool, TaskWorker
from tutti.contracts.admin.v1 import (
    CheckBlobRequest,
    CheckBlobResponse,
    ListChangesRequest,
    ListChangesResponse,
    WatchResponse,
)
from tutti.platform.admin import admin_descriptor, changes
from tutti.platform.servicehost import ServiceHost
from tutti.simulation import effects
from tutti.simulation.controls import Control, EagerUnits, HastyRelay, NoInbox, UnfencedWorker
from tutti.simulation.network import Network, channel
from tutti.simulation.ports import InlinePool, SimulatedBlobs, SimulatedDatabase, SimulatedLog
from tutti.simulation.world import Process, SimulatedFiles, World

SHORTEST_WAIT, LONGEST_WAIT = 0.3, 3.0
Settings = Mapping[str, Mapping[str, Any]]


@dataclass
class AgentHost:
    """The host of an agent: no database and no log; `folder` is its disk, which outlives it, and `files` writes
    there.
    """

    name: str
    blobs: Blobs
    files: Files
    clock: Clock
    randomness: Randomness
    pool: Pool
    folder: Path
    channels: Callable[[str], grpc.Channel]

    def channel(self, service: str) -> grpc.Channel:
        return self.channels(service)


BuildAgent = Callable[[AgentHost], Sequence[Loop]]


@dataclass(eq=False)
class Actor:
    """A loop and when its next step is due."""

    process: Process
    loop: Loop
    due: float = 0.0
    busy: bool = False
    failures: int = 0
    in_vain: int = 0

    def __post_init__(self) -> None:
        self.follow(self.loop)

    def follow(self, loop: Loop) -> None:
        """Step this loop from here on."""
        self.loop = loop
        self.woken: threading.Event | None = getattr(loop, "woken", None)

    @property
    def interval(self) -> float:
        """Seconds until the next poll; they double for loops that events wake."""
        interval = self.loop.interval or SHORTEST_WAIT
        if isinstance(self.loop, Consumer) or self.woken is not None:
            return max(interval, min(LONGEST_WAIT, interval * 2.0**self.in_vain))
        return interval

    @property
    def idle(self) -> bool:
        return not self.busy and not self.process.stalled


@dataclass(eq=False)
class Life:
    """A running service; the network calls it."""

    process: Process
    service: Service
    parts: Parts
    effects: Table
    actors: list[Actor] = field(default_factory=list)

    def api(self, service: str) -> object | None:
        if service == admin_descriptor.full_name:
            return SimulatedAdmin(self)
        found = (each.api for each in self.service.serves if each.descriptor.full_name == service)
        return next(found, None)

    def replace_relay(self, holder: str, ttl: float) -> Relay:
        """Another relay of the same process takes over; the old one does not know."""
        parts = self.parts
        parts.relay = Relay(parts.host.units, parts.log, parts.leases, holder=holder, ttl=ttl)
        parts.host.units.on_emit.append(parts.relay.woken.set)
        return parts.relay

    def watch(self, request: Any, principal: Principal) -> Iterator[WatchResponse]:
        kind = request.name.split("/")[0]
        resource = next((each for each in self.service.resources if each.kind == kind), None)
        if resource is None:
            raise NotFound(request.name)
        message = self.parts.host.units.run(lambda unit: resource.get_for(unit, request.name, principal))
        if message.revision <= request.since_revision:
            return iter(())
        response = WatchResponse(name=request.name, revision=message.revision)
        response.resource.Pack(message)
        return iter((response,))


class SimulatedAdmin:
    """The Admin service in a simulation, except for the stream `Life.watch`."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def CheckBlob(self, request: CheckBlobRequest, call: Call) -> CheckBlobResponse:
        return check_blob(self._life.parts.host.units, self._life.service, request, call)

    def ListChanges(self, request: ListChangesRequest, call: Call) -> ListChangesResponse:
        return self._life.parts.host.units.run(lambda unit: changes(unit, self._life.service))


_METADATA: WeakKeyDictionary[Build, MetaData] = WeakKeyDictionary()


def start_service(
    world: World,
    network: Network,
    name: str,
    build: Build,
    *,
    process: Process,
    seed: str,
    settings: Settings,
    alone: bool,
    control: Control | None,
    ttl: float,
) -> Life:
    metadata = _METADATA.setdefault(build, shared())
    randomness = SeededRandomness(seed)
    database = SimulatedDatabase(world, process, name)
    host = ServiceHost.of(
        name,
        database,
        SimulatedBlobs(world, process),
        clock=world.clock,
        randomness=randomness,
        pool=InlinePool(world, process),
        channels=lambda other: channel(network, process, other, Role.SERVICE),
        loaded=Loaded(PlatformSettings(), own={name: dict(settings.get(name, {}))}),
        metadata=metadata,
        units=EagerUnits if control is Control.RELAY_BEFORE_COMMIT else Units,
    )
    if isinstance(host.units, EagerUnits):
        host.units.log = world.log
    written = effects.table(metadata)
    service = effects.observed(build(host), written)
    parts = assemble(
        host,
        service,
        SimulatedLog(world, process),
        holder=process.holder,
        ttl=ttl,
        relay=HastyRelay if control is Control.MARK_BEFORE_PUBLISH else Relay,
        worker=UnfencedWorker if control is Control.FENCE_OFF else TaskWorker,
        inbox=NoInbox if control is Control.INBOX_OFF else Inbox,
    )
    parts.prepare(alone=alone)
    return Life(process, service, parts, written, [Actor(process, loop) for loop in parts.loops])


def start_agent(
    world: World, network: Network, name: str, build: BuildAgent, *, process: Process, seed: str
) -> list[Actor]:
    folder = Path(world.folder.name) / "agents" / name
    folder.mkdir(parents=True, exist_ok=True)
    host = AgentHost(
        name=name,
        blobs=SimulatedBlobs(world, process),
        files=SimulatedFiles(world, process),
        clock=world.clock,
        randomness=SeededRandomness(seed),
        pool=InlinePool(world, process),
        folder=folder,
        channels=lambda other: channel(network, process, other, Role.AGENT),
    )
    return [Actor(process, loop) for loop in build(host)]
