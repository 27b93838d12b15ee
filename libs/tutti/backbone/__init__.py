"""The ports to Kafka, Postgres, S3 and the system, with their adapters in the packages below.

Promises: every adapter of a port passes the same contract suite (`tests/contract`).
"""

from typing import TYPE_CHECKING

from tutti.backbone.blobs import Blobs
from tutti.backbone.clock import Clock, ManualClock, SystemClock
from tutti.backbone.eventlog import EventLog, Kind, NewRecord, Record, Topic, TopicPartition
from tutti.backbone.randomness import Randomness, SeededRandomness, SystemRandomness, uuid7

if TYPE_CHECKING:
    from tutti.backbone.database import Database, Isolation, Transaction

__all__ = [
    "Blobs",
    "Clock",
    "Database",
    "EventLog",
    "Isolation",
    "Kind",
    "ManualClock",
    "NewRecord",
    "Randomness",
    "Record",
    "SeededRandomness",
    "SystemClock",
    "SystemRandomness",
    "Topic",
    "TopicPartition",
    "Transaction",
    "uuid7",
]


def __getattr__(name: str) -> object:
    """The database port is imported when it is first asked for: a rank reads blobs and imports no SQL."""
    if name in ("Database", "Isolation", "Transaction"):
        from tutti.backbone import database

        return getattr(database, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
