"""The methods that every kind of resource answers alike: Get and List.

Promises: a name of another kind is an InvalidField, an unknown one NotFound; pages stay true under writes.
"""

from typing import Any, TypeVar

from google.protobuf.message import Message

from tutti.chassis.resources import Resource, check_name
from tutti.chassis.unit import Units
from tutti.contracts.common.v1 import GetRequest, ListRequest

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)


def get(units: Units, resource: Resource[M], request: GetRequest) -> M:
    name = check_name(resource.kind, request.name)
    return units.run(lambda unit: resource.get(unit, name))


def list_page(units: Units, resource: Resource[Any], request: ListRequest, response: type[R], field: str) -> R:
    """`field` of the response takes the resources; it has `next_page_token` too."""
    found, token = units.run(lambda unit: resource.page(unit, request))
    return response(**{field: found, "next_page_token": token})
