"""Resources: one kind of named message in one table."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message
from sqlalchemy import MetaData, Table

from tutti.chassis.unit import Unit
from tutti.contracts.common.v1 import ListRequest

M = TypeVar("M", bound=Message)
Column = Callable[[Any], str | int | None]


class Resource(Generic[M]):
    table: Table

    def __init__(
        self, host_metadata: MetaData, kind: str, message: type[M], columns: Mapping[str, Column] | None = None
    ) -> None:
        self.kind, self.message = kind, message

    def create(self, unit: Unit, message: M, request: Message | None = None) -> M:
        raise NotImplementedError

    def lock(self, unit: Unit, name: str) -> M:
        """Raises NotFound."""
        raise NotImplementedError

    def find(self, unit: Unit, name: str) -> M | None:
        raise NotImplementedError

    def get(self, unit: Unit, name: str) -> M:
        """Raises NotFound; takes no lock."""
        raise NotImplementedError

    def put(self, unit: Unit, message: M) -> M:
        raise NotImplementedError

    def select(self, unit: Unit, **columns: Any) -> list[M]:
        raise NotImplementedError

    def page(self, unit: Unit, request: ListRequest) -> tuple[list[M], str]:
        raise NotImplementedError


def check_name(kind: str, name: str) -> str:
    raise NotImplementedError
