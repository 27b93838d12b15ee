"""The methods that every kind of resource answers alike: Get and List.

Promises: a name of another kind is an InvalidField, one that does not exist for the caller NotFound; pages stay true
under writes; a mask returns the fields that it names and no other.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.store.resources import Resource, check_name
from tutti.chassis.store.unit import Unit, Units
from tutti.contracts.common.v1 import GetRequest, ListRequest

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


def get(
    units: Units,
    resource: Resource[M],
    request: GetRequest,
    principal: Principal,
    told: Callable[[Unit, M], M] = lambda unit, found: found,
) -> M:
    """`told` adds to what is stored, in its transaction."""
    name = check_name(resource.kind, request.name)
    _check_mask(resource.message, request.read_mask)
    return _masked(units.run(lambda unit: told(unit, resource.get_for(unit, name, principal))), request.read_mask)


def list_page(
    units: Units,
    resource: Resource[M],
    request: ListRequest,
    response: type[R],
    principal: Principal,
    add: Callable[[Sequence[M]], object] = lambda found: None,
) -> R:
    """The response has a field named as the kind, for the resources, `next_page_token` and `damaged`.

    `add` completes the resources of a page after their transaction, so it may call another service.
    """
    _check_mask(resource.message, request.read_mask)
    page = units.run(lambda unit: resource.page(unit, request, principal))
    add(page.found)
    found = [_masked(each, request.read_mask) for each in page.found]
    return response(**{resource.kind: found, "next_page_token": page.token, "damaged": page.damaged})


def _check_mask(message: type[Message], mask: FieldMask) -> None:
    descriptor: Any = message.DESCRIPTOR
    for path in mask.paths:
        if not FieldMask(paths=[path]).IsValidForDescriptor(descriptor):
            known = ", ".join(field.name for field in descriptor.fields)
            raise InvalidField("read_mask", seen=path, expected=f"fields of {descriptor.name}: {known}")


def _masked(found: M, mask: FieldMask) -> M:
    if not mask.paths:
        return found
    made = type(found)()
    mask.MergeMessage(found, made)
    return made
