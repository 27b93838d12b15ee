"""The network of a simulation: a channel for the generated stubs that ends in the service's own method.

Promises: requests and answers cross as bytes; a method's error arrives as the Problem that a real client raises; calls
are lost before or after their effect, and those that may be sent again arrive twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from google.protobuf.message import Message

from tutti.chassis.errors import (
    DeadlineExceeded,
    Problem,
    Unavailable,
    Unimplemented,
    from_status,
    problem_of,
    to_status,
)
from tutti.chassis.identity.auth import PEOPLE, Role
from tutti.chassis.identity.cause import Cause, caused_by, current_cause
from tutti.chassis.identity.principal import Principal, delegated, delegation
from tutti.chassis.rpc.call import Call, request_id_of
from tutti.chassis.rpc.local import LocalChannel, method_of
from tutti.chassis.rpc.methods import Method
from tutti.simulation.faults import Fault
from tutti.simulation.world import Crashed, Process, World


class Callee(Protocol):
    """A life of a service, as the network sees it."""

    process: Process

    def api(self, service: str) -> object | None:
        """The API that serves this gRPC service."""
        ...

    def watch(self, request: Any, principal: Principal) -> Iterator[Any]:
        """The answers of Admin.Watch at this time."""
        ...


class Network:
    """`find(service)` is one of the lives of a service, or None while it is down."""

    def __init__(self, world: World, find: Callable[[str], Callee | None]) -> None:
        self.world, self._find = world, find
        self.acknowledged: dict[str, int] = {}

    def call(self, caller: Process, service: str, role: Role, path: str, data: bytes, seconds: float) -> Any:
        method = method_of(path, role)
        fate = self.world.fate
        self.world.enter(caller, path)
        if fate.strikes(Fault.RPC_LOST_BEFORE):
            raise Unavailable(f"injected: {path} never arrived")
        if method.retry and fate.strikes(Fault.RPC_DUPLICATED):
            try:
                self._deliver(service, role, method, data, seconds)
            except Problem as problem:
                if not problem.transient:
                    raise
        answer = self._deliver(service, role, method, data, seconds)
        if not caller.alive:
            raise Crashed(caller.name)
        if fate.strikes(Fault.RPC_LOST_AFTER):
            raise DeadlineExceeded(f"injected: the answer of {path} was lost")
        self._remember(answer)
        return method.response.FromString(answer.SerializeToString())

    def watch(self, caller: Process, service: str, role: Role, path: str, request: Any) -> Iterator[Any]:
        """The one stream that a simulation has: it ends after what there is to say now."""
        method_of(path, role)
        self.world.enter(caller, path)
        if self.world.fate.strikes(Fault.RPC_LOST_BEFORE):
            raise Unavailable(f"injected: {path} never arrived")
        who = _user(role) or Principal.of_role(role)
        answer: Iterator[Any] = self._at(service, path, lambda callee: callee.watch(request, who))
        return answer

    def _deliver(self, service: str, role: Role, method: Method, data: bytes, seconds: float) -> Message:
        request = method.request.FromString(data)
        user = _user(role)

        def answer(callee: Callee) -> Message:
            request_id = request_id_of(request)
            api = callee.api(method.service)
            if api is None:
                raise Unimplemented(f"{service} does not serve {method.service}")
            call = Call(role, request_id, "simulation", seconds, user)
            with caused_by(Cause(request_id, principal=call.principal, action=method.path[1:])):
                found: Message = getattr(api, method.name)(request, call)
            return found

        response: Message = self._at(service, method.path, answer)
        return response

    def _at(self, service: str, path: str, work: Callable[[Callee], Any]) -> Any:
        callee = self._find(service)
        if callee is None:
            raise Unavailable(f"{service} is down")
        try:
            return work(callee)
        except Crashed:
            raise DeadlineExceeded(f"{service} crashed while it answered {path}") from None
        except AssertionError:
            raise
        except Exception as error:
            problem = problem_of(error)
            if not isinstance(error, Problem) and not problem.transient:
                raise AssertionError(f"{path} raised {type(error).__name__}: {error}") from error
            raise from_status(to_status(problem)) from error

    def _remember(self, answer: Message) -> None:
        """Resources in answers that reached their caller: from here on they must not be lost."""
        inner = [value for field, value in answer.ListFields() if field.message_type and not field.is_repeated]
        for message in (answer, *inner):
            name, revision = getattr(message, "name", ""), getattr(message, "revision", 0)
            if name and isinstance(revision, int) and revision:
                self.acknowledged[name] = max(revision, self.acknowledged.get(name, 0))


def _user(role: Role) -> Principal | None:
    """The user who calls with a token of a role of people, or on whose behalf a service calls."""
    user = current_cause().principal
    if role in PEOPLE and user is not None:
        return replace(user, roles=frozenset({role}))
    return delegated(delegation(user), role)


def channel(network: Network, caller: Process, service: str, role: Role) -> LocalChannel:
    """Return a channel of a process to a service, through the network."""
    return LocalChannel(
        lambda path, request, seconds: network.call(caller, service, role, path, request.SerializeToString(), seconds),
        lambda path, request: network.watch(caller, service, role, path, request),
    )
