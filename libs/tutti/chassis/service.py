"""Service: what `build(host)` returns, and Host: what it is given.

Promises: a service is a value; nothing runs before its host starts it. It never sees threads, sockets or connections.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from pydantic import BaseModel
from sqlalchemy import MetaData, Table

from tutti.backbone import Blobs, Clock, Database, Randomness
from tutti.backbone.owned import BlobRights, service_rights
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.sections import WebSettings
from tutti.chassis.events.event import Event
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.tasks import Finish, Pool, Task, TaskContext

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class Served:
    """One gRPC service: `api` has one method per rpc, named as in the proto: `def GetJob(self, request, call)`."""

    descriptor: ServiceDescriptor
    api: object


@dataclass(frozen=True)
class Consumed:
    """One event type. The handler does nothing but with its unit, and is right for any split into batches."""

    message: type[Message]
    handler: Callable[[Unit, Sequence[Event]], None]


@dataclass(frozen=True)
class TaskKind:
    """One kind of long work, a row in the service's `tasks` table.

    `run` is called outside any transaction; what it returns is called in the transaction that marks the task done,
    under its fence. `on_failed` is called in the transaction that gives it up.
    """

    name: str
    run: Callable[[TaskContext], Finish]
    on_failed: Callable[[Unit, Task, str], None]
    attempts: int = 3


class Loop(Protocol):
    """Work that goes on; the chassis calls `step` again at once when it did something, else after `interval` seconds.

    A loop that has an attribute `woken` (threading.Event) is called as soon as it is set; one with a true attribute
    `patient` waits or works long in its own step, and is not named for standing still. One with a true attribute `led`
    is stepped by the leader among the replicas of its service alone, and what it writes is fenced by the leader's term.
    """

    name: str

    @property
    def interval(self) -> float: ...

    def step(self) -> bool: ...


@dataclass(frozen=True)
class Finding:
    """One check of `tutti doctor`: what was seen and, when not ok, what to do."""

    check: str
    ok: bool
    message: str


class Remakes(Protocol):
    """Work whose result has the same bytes whenever it is made (`tutti.chassis.work.work.Work`)."""

    def make_again(self, unit: Unit, manifests: Collection[str], cause: str) -> list[str]:
        """Enqueue the work of the results that have these manifests once more; the ids of the tasks."""
        ...


@dataclass(frozen=True)
class PagesAt:
    """The `url` of the pages, and the `former` ones, where they are not any more. `ports` are kept for the next start,
    the newest first.
    """

    url: str = ""
    former: Sequence[str] = ()
    ports: Sequence[int] = ()


class Front(Protocol):
    """The server of all pages of one host: threads of its own, and never the event loop of the gRPC server."""

    def start(self) -> PagesAt:
        """Listen. Raises CannotListen."""
        ...

    def drain(self, seconds: float) -> list[str]:
        """Let nothing new in and wait for what is inside; the requests that had not ended by then."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class FrontHost:
    """The host of a front. `secret` is known only to the hosts of the platform; `reasons` gives for each service of
    this host the reason why it does not serve, empty if it serves; `ports` are those of earlier starts.
    """

    settings: WebSettings
    secret: bytes
    channel: Callable[[str], grpc.Channel]
    reasons: Callable[[], Mapping[str, str]]
    ports: Sequence[int] = ()


class Pages(Protocol):
    """HTTP routes and pages of one service (`tutti.web.pages.Site`)."""

    def front(self, every: Sequence["Pages"], host: FrontHost) -> Front:
        """The server of `every` service's pages, of which these are one."""
        ...


def nothing(unit: Unit) -> Iterable[CanonicalLine]:
    return ()


def none(unit: Unit) -> Iterable[str]:
    return ()


@dataclass
class Service:
    name: str
    resources: Sequence[Resource[Any]]
    tables: Sequence[Table] = ()
    serves: Sequence[Served] = ()
    consumes: Sequence[Consumed] = ()
    facts: Sequence[type[Message]] = ()
    tasks: Sequence[TaskKind] = ()
    loops: Sequence[Loop] = ()
    export: Callable[[Unit], Iterable[CanonicalLine]] = nothing
    checks: Sequence[Callable[[], Finding]] = field(default_factory=tuple)
    remakes: Sequence[Remakes] = ()
    """Work that a scrub may repeat where blobs of its result are damaged."""
    condemned: Callable[[Unit], Iterable[str]] = none
    """Prefixes of the keys of blobs that are known to be damaged, and kept as evidence."""
    migrations: Path | None = None
    """The folder with the history of its own tables; without one, tables that are missing are created."""
    pages: Pages | None = None
    reads: Sequence[str] = ()
    """The owners whose blobs it reads, beside its own."""
    deletes: Sequence[str] = ()
    """Prefixes of the blobs of others that it deletes."""
    writes: Sequence[str] = ()
    """Prefixes of the blobs of others that it adds."""

    holds: Callable[[Unit, str, Principal], bool] | None = None
    """Returns whether a blob of this service exists for a principal; needed if it owns kinds that belong to tenants."""

    def blob_rights(self) -> BlobRights:
        return service_rights(self.name, self.reads, self.deletes, self.writes)


@dataclass(frozen=True)
class Home:
    """The means to start programs that end with the host: its data directory, and the token of services that they need.

    `closing` registers a function that is called when the host stops, before its stores are closed.
    """

    data_dir: DataDir
    token: str
    closing: Callable[[Callable[[], None]], object]


class Host(Protocol):
    """Everything that a service may use from outside."""

    @property
    def service(self) -> str: ...

    @property
    def database(self) -> Database: ...

    @property
    def blobs(self) -> Blobs: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def randomness(self) -> Randomness: ...

    @property
    def units(self) -> Units: ...

    @property
    def metadata(self) -> MetaData: ...

    @property
    def pool(self) -> Pool: ...

    def channel(self, service: str) -> grpc.Channel:
        """To another service, by name; stubs on it raise subclasses of Problem, never grpc.RpcError."""
        ...

    def settings(self, model: type[S]) -> S:
        """The service's own section of the settings."""
        ...

    def home(self) -> Home:
        """Raises Unavailable where no program can be started, as in a simulation."""
        ...


Build = Callable[[Host], Service]
