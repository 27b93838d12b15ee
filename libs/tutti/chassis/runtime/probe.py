"""The probe: keeps health true while the host runs.

Promises: a service is NOT_SERVING while its database, the event log or one of its loops is away, and serves again when
they are back; one that hangs counts as away, and the others are looked at all the same; the health file reports it to
a health check outside of this process.
"""

from collections.abc import Mapping
from functools import partial

from sqlalchemy import select

from tutti.backbone import Database, EventLog, Isolation
from tutti.chassis.rpc.health import Health
from tutti.chassis.runtime.dependencies import DependencyChecks
from tutti.chassis.runtime.healthfile import HealthFile
from tutti.chassis.runtime.loops import LoopThread


class Probe:
    """A Loop; `services` maps a name to its database and its threads, `topic` is one that exists."""

    name = "health probe"
    interval = 2.0

    def __init__(
        self,
        services: Mapping[str, tuple[Database, tuple[LoopThread, ...]]],
        log: EventLog,
        topic: str | None,
        health: Health,
        file: HealthFile,
    ) -> None:
        self._services, self._log, self._topic, self._health = services, log, topic, health
        self._file, self._looks = file, DependencyChecks()

    def step(self) -> bool:
        away = self._looks.at("event log", partial(look_at_log, self._log, self._topic))
        for name, (database, threads) in self._services.items():
            reason = away or self._looks.at(f"database of {name}", partial(answer, database)) or self._threads(threads)
            self._health.set(name, reason)
        self._file.write("; ".join(f"{name}: {reason}" for name, reason in self._health.reasons().items()))
        return False

    def _threads(self, threads: tuple[LoopThread, ...]) -> str:
        ended = [thread.name for thread in threads if not thread.alive()]
        return f"ended: {', '.join(ended)}" if ended else ""


def look_at_log(log: EventLog, topic: str | None) -> None:
    """Let the event log answer about a topic that exists, where there is one. Raises LogError."""
    if topic is not None:
        log.end_offsets(topic)


def answer(database: Database) -> None:
    """Let a database answer. Raises DatabaseError."""
    database.run(lambda tx: tx.execute(select(1)).scalar(), isolation=Isolation.READ_COMMITTED)
