"""Rate limits that hold across replicas: one row a key, charged in one statement.

The generic cell rate algorithm (GCRA, ITU-T I.371): a row holds the theoretical arrival time of the next request that
conforms exactly to the rate; a request is let through while that time is at most `burst` requests ahead of now.

Promises: never more than `burst + rate x seconds` charges of a key succeed, however many processes charge it.
"""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, MetaData, Table, case, delete, select

from tutti.chassis.store.statements import upsert
from tutti.chassis.store.tables import NAME, declare, micros
from tutti.chassis.store.unit import Unit

SECOND = 1_000_000


@dataclass(frozen=True)
class Limit:
    """At most `burst` at once, and `per_second` of them in the long run."""

    burst: int
    per_second: float

    @property
    def interval(self) -> int:
        """Microseconds between two requests at the rate."""
        return round(SECOND / self.per_second)


class Limits:
    """The table of one service."""

    def __init__(self, metadata: MetaData) -> None:
        self.table: Table = declare(
            "rate_limits",
            metadata,
            Column("key", NAME, primary_key=True),
            Column("arrival", BigInteger, nullable=False, index=True),
        )

    def charge(self, unit: Unit, key: str, limit: Limit) -> float:
        """Charge one request to `key`. Returns 0.0 if it conforms, else the seconds until the next one does."""
        now, interval = micros(unit.now), limit.interval
        table = self.table
        begins = case((table.c.arrival > now, table.c.arrival), else_=now)
        conforms = begins + interval - now <= limit.burst * interval
        charged = (
            upsert(table, unit.tx.skip_locked)
            .values(key=key, arrival=now + interval)
            .on_conflict_do_update(index_elements=[table.c.key], set_={"arrival": begins + interval}, where=conforms)
            .returning(table.c.arrival)
        )
        if unit.tx.execute(charged).first() is not None:
            return 0.0
        arrival = int(unit.tx.execute(select(table.c.arrival).where(table.c.key == key)).scalar_one())
        return max(arrival + interval - now - limit.burst * interval, 1) / SECOND

    def prune(self, unit: Unit) -> int:
        """Delete the rows that no longer limit anything; how many."""
        return int(unit.tx.execute(delete(self.table).where(self.table.c.arrival < micros(unit.now))).rowcount)
