"""Services in this process, over empty stores in a folder, that answer each other's calls without a server.

For questions that need the logic of services and none of their state, such as what is wrong with a recipe. A service is
loaded when it is first called. Promises: no thread, no socket and no process is started; a method's error arrives as
the Problem that a real client raises. Only calls that have no lasting effect make sense here: no loop runs.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

from google.protobuf.message import Message

from tutti.backbone import SystemClock, SystemRandomness
from tutti.backbone.connect import open_blobs, open_database
from tutti.backbone.owned import OwnedBlobs, service_rights
from tutti.chassis.config.settings import Loaded
from tutti.chassis.errors import NotFound, Unimplemented, from_status, problem_of, to_status
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.call import Call, request_id_of
from tutti.chassis.rpc.local import LocalChannel, method_of
from tutti.chassis.service import Service
from tutti.platform.installed import find
from tutti.platform.servicehost import ServiceHost

P = ParamSpec("P")
T = TypeVar("T")


class HerePool:
    """A pool that runs functions in the caller's thread."""

    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)


class InProcessServices:
    """`missed` says whether a call asked for a resource that is not in these empty stores."""

    def __init__(self, folder: Path, loaded: Loaded) -> None:
        self.missed = False
        self._folder, self._loaded = folder, loaded
        self._clock, self._randomness, self._pool = SystemClock(), SystemRandomness(), HerePool()
        self._open = ExitStack()
        self._services: dict[str, Service] = {}

    def channel(self, service: str) -> LocalChannel:
        """Return a channel of the caller, who is an operator here, to a service by the name of its entry point."""
        return self._channel(service, Role.OPERATOR)

    def _channel(self, service: str, role: Role) -> LocalChannel:
        return LocalChannel(
            lambda path, request, seconds: self._call(service, role, path, request, seconds), self._stream
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _call(self, service: str, role: Role, path: str, request: Message, seconds: float) -> Any:
        method = method_of(path, role)
        api = next((each.api for each in self._of(service).serves if each.descriptor.full_name == method.service), None)
        if api is None:
            raise Unimplemented(f"{service} does not serve {method.service}")
        call = Call(role, request_id_of(request), "the same process", seconds)
        try:
            return getattr(api, method.name)(request, call)
        except Exception as error:
            problem = from_status(to_status(problem_of(error)))
            self.missed |= isinstance(problem, NotFound)
            raise problem from error

    def _stream(self, path: str, request: Any) -> Iterator[Any]:
        return self._refused(path)

    def _refused(self, path: str) -> NoReturn:
        raise Unimplemented(f"{path} is a stream: only a platform that runs answers it")

    def _of(self, name: str) -> Service:
        if name not in self._services:
            database = open_database(f"sqlite:///{self._folder}", name, clock=self._clock)
            self._open.callback(database.close)
            blobs = OwnedBlobs(open_blobs(f"file://{self._folder}/blobs"), name, service_rights(name))
            host = ServiceHost.of(
                name,
                database,
                blobs,
                clock=self._clock,
                randomness=self._randomness,
                pool=self._pool,
                channels=lambda other: self._channel(other, Role.SERVICE),
                loaded=self._loaded,
            )
            _, build = find(name)
            self._services[name] = build(host)
            blobs.rights = self._services[name].blob_rights()
            database.create(host.metadata)
        return self._services[name]
