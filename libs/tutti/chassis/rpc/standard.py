"""The calls that every kind of resource answers alike, Get, List and Cancel: derived from the descriptor and the kind.

Promises: a call that the API defines itself is never replaced; a call is derived only where its request and response
are those of the call shape, so a method that nobody answers is still refused before anything is served; what a kind
does not show to the caller does not exist for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.methods import Method, methods_of
from tutti.chassis.service import Served
from tutti.chassis.store import crud
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.common.v1 import CancelRequest, GetRequest, ListRequest

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)
Answer = Callable[[Any, Call], Message]


class Readable(Protocol):
    """The implementation of Get and List of a kind; where it has a `cancel(request, principal)`, of Cancel too."""

    @property
    def resource(self) -> Resource[Any]: ...

    def get(self, request: GetRequest, principal: Principal) -> Message: ...

    def page(self, request: ListRequest, response: type[R], principal: Principal) -> R: ...


@dataclass(frozen=True)
class Stored(Generic[M]):
    """A kind that is read as it is stored; `told` adds to what Get returns, in its transaction."""

    units: Units
    resource: Resource[M]
    told: Callable[[Unit, M], M] = lambda unit, found: found

    def get(self, request: GetRequest, principal: Principal) -> M:
        return crud.get(self.units, self.resource, request, principal, self.told)

    def page(self, request: ListRequest, response: type[R], principal: Principal) -> R:
        return crud.list_page(self.units, self.resource, request, response, principal)


class Api:
    """The methods of `api`, and those that it leaves to the call shape."""

    def __init__(self, api: object, derived: Mapping[str, Answer]) -> None:
        self._api, self._derived = api, derived

    def __getattr__(self, name: str) -> Any:
        return self._derived[name] if name in self._derived else getattr(self._api, name)


def served(descriptor: ServiceDescriptor, api: object, *kinds: Readable) -> Served:
    """The gRPC service whose calls are the methods of `api`, and for the rest the Get, List and Cancel of `kinds`."""
    derived: dict[str, Answer] = {}
    for method in methods_of(descriptor):
        answer = next(filter(None, (_derived(method, kind) for kind in kinds)), None)
        if answer is not None and not hasattr(api, method.name):
            derived[method.name] = answer
    return Served(descriptor, Api(api, derived))


def _derived(method: Method, kind: Readable) -> Answer | None:
    """The answer of a kind to a method, or None where the method is not one of the call shape for this kind."""
    message = kind.resource.message
    if method.request is GetRequest and method.response is message:
        return lambda request, call: kind.get(request, call.principal)
    if method.request is ListRequest and kind.resource.kind in method.response.DESCRIPTOR.fields_by_name:
        response = method.response
        return lambda request, call: kind.page(request, response, call.principal)
    cancel: Callable[[CancelRequest, Principal], Message] | None = getattr(kind, "cancel", None)
    if cancel is not None and method.request is CancelRequest and method.response is message:
        return lambda request, call: cancel(request, call.principal)
    return None
