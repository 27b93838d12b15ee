"""Clients that reserve, renew and settle answers, and log every commit: `python -m tests.contract.reserving URL SCHEMA
CLIENTS SEED`.

A row of the log is written in the transaction that it describes, after it. Two transactions of one subject that read or
change the same rows do so under a lock, so the numbers of the log are the order of their commits.
"""

import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, func, select

from tutti.access.allowances import Rates
from tutti.access.reservations import Asked, Reservations, Spent
from tutti.backbone import Database, Isolation, SystemClock, SystemRandomness
from tutti.backbone.connect import open_database
from tutti.backbone.database import DatabaseUnavailable
from tutti.chassis.errors import Refused
from tutti.chassis.store.tables import NAME, micros
from tutti.chassis.store.unit import Unit, Units

RATES = Rates(requests=60, tokens=500, concurrent=8)
LEASE, BUSY_SECONDS = timedelta(seconds=2), 120.0
SUBJECTS, STEPS, PROMPT = 4, 3, 3
ENDS = ("completed", "cut", "never begun", "twice", "renewed", "abandoned", "known", "late")
"""Kinds of an end. `known` is abandoned after a renewal, `late` is retried after it was settled."""


class Bench:
    def __init__(self, database: Database) -> None:
        metadata = MetaData()
        self.reservations = Reservations(metadata, lease=LEASE)
        self.log = Table(
            "log",
            metadata,
            Column("subject", NAME, primary_key=True),
            Column("number", BigInteger, primary_key=True),
            Column("call", NAME),
            Column("at", BigInteger),
            Column("id", NAME),
            Column("tokens", BigInteger),
            Column("answers", BigInteger),
            Column("prompt", BigInteger),
            Column("released", BigInteger),
            Column("computed", BigInteger),
            Column("refused_by", BigInteger),
        )
        self.units = Units(database, "access", metadata, clock=SystemClock(), randomness=SystemRandomness())
        database.create(metadata)

    def run(self, work: Callable[[Unit], Any]) -> Any:
        """Run it, again where all connections were busy for too long: then nothing was sent."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self.units.run(work, isolation=Isolation.READ_COMMITTED)
            except DatabaseUnavailable as error:
                if "all connections were busy" not in str(error) or time.monotonic() > deadline:
                    raise

    def reserve(self, subject: str, id: str, tokens: int) -> bool:
        """Reserve as many answers as the tokens say, so that a retry asks for the same."""
        answers = 1 + tokens % 3

        def reserve(unit: Unit) -> int:
            asked = Asked(id, subject, "users/a", "", PROMPT, tokens, answers)
            refused_by = int(self.reservations.reserve(unit, asked, RATES).verdict.refused_by)
            self._note(unit, subject, "reserve", Spent(id), tokens=tokens, answers=answers, refused_by=refused_by)
            return refused_by

        return bool(self.run(reserve) == 0)

    def renew(self, subject: str, spent: Spent) -> None:
        def renew(unit: Unit) -> None:
            ended, _ = self.reservations.renew(unit, [spent])
            self._note(unit, subject, "renew", spent, refused_by=len(ended))

        self.run(renew)

    def settle(self, subject: str, spent: Spent) -> None:
        def settle(unit: Unit) -> None:
            self.reservations.settle(unit, [spent], RATES)
            self._note(unit, subject, "settle", spent)

        self.run(settle)

    def _note(
        self,
        unit: Unit,
        subject: str,
        call: str,
        spent: Spent,
        *,
        tokens: int = 0,
        answers: int = 0,
        refused_by: int = 0,
    ) -> None:
        last = select(func.max(self.log.c.number)).where(self.log.c.subject == subject)
        number = (unit.tx.execute(last).scalar_one() or 0) + 1
        row = {
            "subject": subject,
            "number": number,
            "call": call,
            "at": micros(unit.now),
            "id": spent.id,
            "tokens": tokens,
            "answers": answers,
            "prompt": spent.prompt,
            "released": spent.released,
            "computed": spent.computed,
            "refused_by": refused_by,
        }
        unit.insert_new(self.log, [row])


def client(bench: Bench, name: str, seed: int) -> None:
    """A client that asks STEPS times, and ends what was admitted in a way that its seed draws."""
    rng = random.Random(seed)
    for step in range(STEPS):
        id, subject, end = f"{name}-{step}", f"subject-{rng.randrange(SUBJECTS)}", rng.choice(ENDS)
        tokens = rng.randint(PROMPT + 1, 40)
        if not bench.reserve(subject, id, tokens):
            continue
        if rng.random() < 0.3:
            has_ended(bench, subject, id, tokens)
        half = Spent(id, PROMPT, (tokens - PROMPT) // 3, (tokens - PROMPT) // 2)
        whole = Spent(id, PROMPT, tokens - PROMPT, tokens - PROMPT)
        if end in ("renewed", "known"):
            bench.renew(subject, half)
        if end in ("abandoned", "known"):
            continue
        cost = {"cut": half, "never begun": Spent(id)}.get(end, whole)
        for _ in range(2 if end == "twice" else 1):
            bench.settle(subject, cost)
        if end == "late":
            assert has_ended(bench, subject, id, tokens), f"{id} was admitted again after its end"


def has_ended(bench: Bench, subject: str, id: str, tokens: int) -> bool:
    """Reserve once more, as after a lost answer; True if the reservation has ended meanwhile."""
    try:
        assert bench.reserve(subject, id, tokens)
    except Refused:
        return True
    return False


def load(bench: Bench, clients: int, seed: int) -> None:
    """Let clients work at once, in threads."""
    with ThreadPoolExecutor(clients) as pool:
        for done in [pool.submit(client, bench, f"{seed}-{each}", seed * 1000 + each) for each in range(clients)]:
            done.result()


if __name__ == "__main__":
    url, schema, clients, seed = sys.argv[1:]
    with closing(open_database(url, schema)) as opened:
        load(Bench(opened), int(clients), int(seed))
