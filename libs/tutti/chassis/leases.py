"""Leases: who may do a thing, until when; a row in the database of what it guards.

Promises: the epoch of a lease grows with every new holder; `unit.fence(lease)` writes under the lease or refuses; a
lease lapses by the database's clock on a server, elsewhere by monotonic time counted only while its observer was up.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import MetaData

if TYPE_CHECKING:
    from tutti.chassis.unit import Unit


@dataclass(frozen=True)
class Lease:
    name: str
    holder: str
    epoch: int


class Leases:
    def __init__(self, metadata: MetaData) -> None:
        raise NotImplementedError

    def acquire(self, unit: "Unit", name: str, holder: str, ttl: float) -> Lease | None:
        """The lease, or None while another holds it. The holder itself gets the same epoch again."""
        raise NotImplementedError

    def renew(self, unit: "Unit", lease: Lease, ttl: float) -> None:
        """Raises FencedOff when it was lost."""
        raise NotImplementedError

    def release(self, unit: "Unit", lease: Lease) -> None:
        """Give it up; silent when it was lost."""
        raise NotImplementedError
