"""A replica in a process of its own, told by lines on stdin what to do: `python -m tests.contract.leading URL SCHEMA`.

lead    take part until this replica leads; says the term
write   add a row under the term; says `wrote`, or `refused`
hold    the same, and wait inside the transaction for another line
skew N  set the wall clock of this process ahead by N seconds
"""

import sys
import time
from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, insert

from tutti.backbone import SystemClock, SystemRandomness
from tutti.backbone.postgres.database import PostgresDatabase
from tutti.chassis.errors import FencedOff
from tutti.chassis.store.leases import Leases
from tutti.chassis.store.terms import Term, under
from tutti.chassis.store.unit import Unit, Units
from tutti.chassis.work.leadership import Leadership

TTL = 1.5
metadata = MetaData()
rows = Table("written", metadata, Column("term", BigInteger), Column("what", Text))


class SkewedClock(SystemClock):
    def __init__(self) -> None:
        self.skew = timedelta()

    def now(self) -> datetime:
        return super().now() + self.skew


class Replica:
    def __init__(self, url: str, schema: str, holder: str) -> None:
        self.clock = SkewedClock()
        self.database = PostgresDatabase(url, schema=schema, pool_size=2, deadline_seconds=4)
        self.units = Units(self.database, schema, metadata, clock=self.clock, randomness=SystemRandomness())
        self.database.create(metadata)
        self.leadership = Leadership(
            self.units, Leases(metadata), holder=f"{holder}/1@{holder}:1", ttl=TTL, clock=self.clock
        )
        self._last: Term | None = None

    def lead(self) -> str:
        while (term := self.leadership.term()) is None:
            self.leadership.step()
            time.sleep(0.05)
        self._last = term
        return f"leads {term.number}"

    def write(self, what: str, *, wait: bool) -> str:
        """Under the term that it last had, as a loop that was stopped inside its step."""
        term = self._last
        assert term is not None

        def work(unit: Unit) -> None:
            unit.tx.execute(insert(rows), {"term": term.number, "what": what})
            if wait:
                print("inside", flush=True)
                sys.stdin.readline()

        try:
            with under(term):
                self.units.run(work)
        except FencedOff:
            return "refused"
        return "wrote"

    def told(self, line: str) -> str:
        match line.split():
            case ["lead"]:
                return self.lead()
            case ["write"]:
                return self.write("plain", wait=False)
            case ["hold"]:
                return self.write("held", wait=True)
            case ["skew", seconds]:
                self.clock.skew = timedelta(seconds=float(seconds))
                return "skewed"
        raise ValueError(line)


def main(url: str, schema: str, holder: str) -> None:
    replica = Replica(url, schema, holder)
    print("up", flush=True)
    for line in sys.stdin:
        print(replica.told(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
