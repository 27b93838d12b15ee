"""Reservations under load: 200 clients of a process on SQLite, 3 x 66 on Postgres; a model replays the commits.

Every admission fitted, every refusal did not; a retry is charged once; nothing is held after every kind of end.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.chat.replicas import await_that
from tests.contract.reserving import LEASE, RATES, SUBJECTS, Bench, load

from tutti.access.allowances import MINUTE
from tutti.backbone import SeededRandomness
from tutti.backbone.connect import open_database
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.contracts.access.v1 import LIMIT_CONCURRENT, LIMIT_REQUESTS, LIMIT_TOKENS

SECONDS = 400


@dataclass
class Answer:
    """What the model knows of a reservation; `ended` once it was charged, `settled` once that is final."""

    tokens: int
    answers: int
    until: int
    prompt: int = 0
    released: int = 0
    computed: int = 0
    ended: bool = False
    settled: bool = False


@dataclass
class Model:
    """The limits of one subject, by what was used at which time: no bucket, but the definition of one."""

    at: int = 0
    requests: list[tuple[int, int]] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    refused: Counter[int] = field(default_factory=Counter)

    def replay(self, row: Any) -> None:
        getattr(self, row.call)(row)

    def reserve(self, row: Any) -> None:
        for each in self.answers.values():
            if not each.ended and each.until <= row.at:
                self._charge(each, each.prompt, each.released, each.computed, row.at)
        if row.id in self.answers:
            assert not row.refused_by
            assert not self.answers[row.id].ended
            return
        now, running = max(self.at, row.at), [each for each in self.answers.values() if not each.ended]
        held = sum(each.tokens for each in running)
        fits = {
            LIMIT_REQUESTS: _fits(self.requests, now, 1, RATES.requests),
            LIMIT_TOKENS: _fits(self.tokens, now, held + row.tokens, RATES.tokens),
            LIMIT_CONCURRENT: sum(each.answers for each in running) + row.answers <= RATES.concurrent,
        }
        if row.refused_by:
            assert not fits[row.refused_by], (row, fits)
            self.refused[row.refused_by] += 1
            return
        assert all(fits.values()), (row, fits)
        self.at = now
        self.requests.append((now, 1))
        self.answers[row.id] = Answer(row.tokens, row.answers, row.at + LEASE.total_seconds() * 1_000_000)

    def renew(self, row: Any) -> None:
        known = self.answers[row.id]
        assert bool(row.refused_by) == known.ended
        if not known.ended:
            known.until = row.at + LEASE.total_seconds() * 1_000_000
            known.prompt, known.released, known.computed = row.prompt, row.released, row.computed

    def settle(self, row: Any) -> None:
        known = self.answers[row.id]
        if not known.settled:
            self._charge(known, row.prompt, row.released, row.computed, row.at)
            known.settled = True

    def _charge(self, known: Answer, prompt: int, released: int, computed: int, at: int) -> None:
        charged = known.prompt + known.computed if known.ended else 0
        known.prompt, known.released = max(known.prompt, prompt), max(known.released, released)
        known.computed, known.ended = max(known.computed, computed), True
        self.at = max(self.at, at)
        self.tokens.append((self.at, known.prompt + known.computed - charged))


def _fits(used: list[tuple[int, int]], now: int, more: int, limit: int) -> bool:
    """Return whether `more` fit: from no moment on, more was used than the limit and what it gains until now."""
    total, fits = more, more <= limit
    for at, count in reversed(used):
        total += count
        fits = fits and total * MINUTE <= limit * (MINUTE + now - at)
    return fits


@pytest.fixture(params=["sqlite", "postgres"])
def bench(request: pytest.FixtureRequest, memory: Path, unique: str) -> Iterator[Bench]:
    """A bench whose clients have ended."""
    if request.param == "sqlite":
        database = EmbeddedDatabase(memory / "access.db", failures=SeededRandomness(7), failure_probability=0.02)
        with closing(database):
            made = Bench(database)
            load(made, clients=200, seed=1)
            yield made
        return
    url = request.getfixturevalue("postgres_url")
    with closing(open_database(url, unique)) as opened:
        made = Bench(opened)
        command = [sys.executable, "-m", "tests.contract.reserving", url, unique, "66"]
        clients = [subprocess.Popen([*command, f"{seed}"]) for seed in range(2, 5)]
        assert [each.wait(SECONDS) for each in clients] == [0, 0, 0]
        yield made


def test_every_admission_fits_every_refusal_does_not_and_nothing_leaks(bench: Bench) -> None:
    reservations = bench.reservations
    await_that(lambda: bench.run(lambda unit: _running(unit, reservations)) == 0, "the leases to end", SECONDS)
    rows = bench.run(lambda unit: unit.tx.execute(select(bench.log).order_by(bench.log.c.number)).all())
    models = {f"subject-{number}": Model() for number in range(SUBJECTS)}
    for row in rows:
        models[row.subject].replay(row)
    assert sum(len(each.answers) for each in models.values()) > RATES.requests
    assert sum((each.refused for each in models.values()), Counter[int]()).total() > 0
    usage = {each.subject: each for each in bench.run(lambda unit: _summed(unit, reservations))}
    for subject, model in models.items():
        seen = usage[subject]
        answers = model.answers.values()
        assert (seen.requests, seen.prompt, seen.released) == (
            len(answers),
            sum(each.prompt for each in answers),
            sum(each.released for each in answers),
        )


@dataclass
class Sum:
    subject: str
    requests: int = 0
    prompt: int = 0
    released: int = 0


def _summed(unit: Any, reservations: Any) -> list[Sum]:
    """Usage of all days, since a test can run at midnight."""
    found = dict[str, Sum]()
    for day in reservations.usage(unit):
        known = found.setdefault(day.subject, Sum(day.subject))
        known.requests += day.requests
        known.prompt += day.prompt
        known.released += day.released
    return list(found.values())


def _running(unit: Any, reservations: Any) -> int:
    """The number of reservations that have not ended, after those that were not renewed have."""
    reservations.expire(unit, RATES)
    [_, rows, _] = reservations.tables
    return len(unit.tx.execute(select(rows.c.id).where(rows.c.ended_at.is_(None))).all())
