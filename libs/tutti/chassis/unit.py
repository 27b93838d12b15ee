"""Unit of work: one transaction, the resources that it locked, the events that it emits."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from google.protobuf.message import Message

from tutti.backbone import Isolation, Transaction
from tutti.chassis.leases import Lease

T = TypeVar("T")


class Unit:
    tx: Transaction
    now: datetime

    def fact(self, resource_name: str, message: Message) -> None:
        """Emit a FACT of a resource that this unit put or created. Raises EmitRefused."""
        raise NotImplementedError

    def on_commit(self, hook: Callable[[], None]) -> None:
        raise NotImplementedError

    def savepoint(self, fn: Callable[[], T]) -> T:
        raise NotImplementedError

    def fence(self, lease: Lease) -> None:
        """Raises FencedOff."""
        raise NotImplementedError

    def enqueue(self, kind: str, resource: str, payload: bytes = b"", id: str | None = None) -> str:
        """Add a task; the same id again changes nothing."""
        raise NotImplementedError

    def cancel_tasks(self, resource: str) -> int:
        """Cancel the tasks of a resource that have not ended; how many."""
        raise NotImplementedError


class Units:
    def run(self, fn: Callable[[Unit], T], *, isolation: Isolation = Isolation.SERIALIZABLE) -> T:
        """One transaction; `fn` may be run again."""
        raise NotImplementedError
