"""References: the resources, blobs and nodes that a request names, looked up for the caller before its method runs.

Promises: what belongs to another tenant does not exist for the caller, whether it is named or its key is known; a name
or key that nobody has does not exist either. A method is not called for the credential of another node.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import grpc
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.kinds import Kind, every_kind
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.admin.v1 import CheckBlobRequest, CheckBlobResponse
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.options.v1 import Refers, refers

BLOBS, RESOURCES, TEXT = "blobs", "resources", "text"
Holds = Callable[[Unit, str, Principal], bool]


class Owner(Protocol):
    """A service that checks references: its kinds, and whether one of its blobs exists for a principal."""

    @property
    def name(self) -> str: ...

    @property
    def resources(self) -> Any: ...

    @property
    def holds(self) -> Holds | None: ...


class Asks(Protocol):
    """The means of a service to look up its own rows, and to ask others."""

    @property
    def units(self) -> Units: ...

    def channel(self, service: str) -> grpc.Channel: ...


@dataclass(frozen=True)
class Reference:
    """A text of a message that names something; `path` leads to it."""

    path: str
    value: str
    rule: Refers


class References:
    """Looks up what requests name for the callers of one service."""

    def __init__(self, host: Asks, service: Owner) -> None:
        self._host, self._service = host, service
        self._own: dict[str, Resource[Any]] = {each.kind: each for each in service.resources}

    def require(self, message: Message, call: Call) -> None:
        """Raise NotFound or PermissionDenied for what the caller may not refer to."""
        for found in references(message):
            if found.rule.acts:
                call.require_node(found.value)
            if not call.principal.is_machine:
                self._require(found, call.principal)

    def _require(self, found: Reference, principal: Principal) -> None:
        if found.rule.to == BLOBS:
            owner = found.value.partition("/")[0]
            if owner in holders() and not self._holds(owner, found.value, principal):
                raise NotFound(f"the blob {found.value[:200]}")
            return
        kind = None if found.rule.creates else tenant_kinds().get(found.value.partition("/")[0])
        if kind is not None and not self._exists(kind, found.value, principal):
            raise NotFound(found.value[:200])

    def _exists(self, kind: Kind, name: str, principal: Principal) -> bool:
        own = self._own.get(kind.plural)
        if own is not None:
            return self._host.units.run(lambda unit: own.exists_for(unit, name, principal))
        try:
            kind.get(self._host.channel(kind.owner), name)
        except NotFound:
            return False
        return True

    def _holds(self, owner: str, key: str, principal: Principal) -> bool:
        if owner == self._service.name:
            return self._host.units.run(lambda unit: holds(unit, self._service, key, principal))
        try:
            AdminStub(self._host.channel(owner)).CheckBlob(CheckBlobRequest(service=owner, key=key))
        except NotFound:
            return False
        return True


class Guarded:
    """The methods of `api`, each called only after the references of its request were looked up."""

    def __init__(self, api: object, found: References) -> None:
        self.api, self._references = api, found

    def __getattr__(self, name: str) -> Any:
        method, look_up = getattr(self.api, name), self._references
        if not name[:1].isupper():
            return method

        def guarded(request: Message, call: Call) -> Any:
            look_up.require(request, call)
            return method(request, call)

        return guarded


def holds(unit: Unit, service: Owner, key: str, principal: Principal) -> bool:
    """Return whether a blob of a service exists for a principal; always if the blobs of the service belong to none."""
    return service.holds is None or principal.is_machine or service.holds(unit, key, principal)


def check_blob(units: Units, service: Owner, request: CheckBlobRequest, call: Call) -> CheckBlobResponse:
    """Raises NotFound for a blob of a service that does not exist for the caller."""
    if not units.run(lambda unit: holds(unit, service, request.key, call.principal)):
        raise NotFound(f"the blob {request.key[:200]}")
    return CheckBlobResponse()


def references(message: Message) -> Iterator[Reference]:
    """Return what a message names, in the order of its fields."""
    yield from _found(message, "")


@cache
def tenant_kinds() -> dict[str, Kind]:
    """The kinds whose resources belong to tenants, by plural."""
    return {kind.plural: kind for kind in every_kind() if kind.tenants}


@cache
def holders() -> frozenset[str]:
    """The services whose blobs belong to tenants: those that own such a kind."""
    return frozenset(kind.owner for kind in tenant_kinds().values())


def rule_of(field: FieldDescriptor) -> Refers | None:
    """The declaration of a field that names something; None if it has none."""
    options = field.GetOptions()
    return options.Extensions[refers] if options.HasExtension(refers) else None


def _found(message: Message, path: str) -> Iterator[Reference]:
    for field, rule in _typed(message.DESCRIPTOR):
        value, where = getattr(message, field.name), f"{path}{field.name}"
        if rule is not None:
            for text in value if field.is_repeated else (value,):
                if text:
                    yield Reference(where, text, rule)
        elif field.is_repeated:
            for each in value:
                yield from _found(each, f"{where}.")
        elif message.HasField(field.name):
            yield from _found(value, f"{where}.")


@cache
def _typed(descriptor: Descriptor) -> tuple[tuple[FieldDescriptor, Refers | None], ...]:
    """The fields of a message that name something themselves, or whose messages have fields that do."""
    found = list[tuple[FieldDescriptor, Refers | None]]()
    for field in descriptor.fields:
        rule = rule_of(field)
        if rule is not None or (field.message_type is not None and _reaches(field.message_type)):
            found.append((field, rule))
    return tuple(found)


def _reaches(descriptor: Descriptor, seen: frozenset[str] = frozenset()) -> bool:
    if descriptor.full_name in seen or descriptor.file.package.startswith("google."):
        return False
    within = seen | {descriptor.full_name}
    return any(
        rule_of(field) is not None or (field.message_type is not None and _reaches(field.message_type, within))
        for field in descriptor.fields
    )
