"""Faults: what a simulated world does to its services, by seed.

Promises: one stream of randomness decides all; every fault that struck is counted.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Fault(Enum):
    TRANSACTION_ABORTED = "a statement or commit lost against another transaction"
    DATABASE_UNAVAILABLE = "the database could not be reached"
    COMMIT_UNANSWERED = "a transaction was committed, its answer lost"
    LOG_UNAVAILABLE = "the event log could not be reached"
    APPEND_UNANSWERED = "records were appended, the answer lost"
    DUPLICATED = "events were delivered again"
    DELAYED = "events of some partitions were delivered later than others"
    REBALANCED = "a consumer group was dealt anew"
    RPC_LOST_BEFORE = "a call never arrived"
    RPC_LOST_AFTER = "a call had its effect, its answer was lost"
    RPC_DUPLICATED = "a call arrived twice"
    CRASHED = "a process ended at a port and was started again"
    CLOCK_PAUSED = "everybody stood still for longer than a lease"
    CLOCK_JUMPED = "the wall clock was set"
    RELAY_ZOMBIE = "a relay went on after it had been replaced"
    BLOBS_UNAVAILABLE = "the blob store could not be reached"
    PUT_UNANSWERED = "a blob was stored, the answer lost"
    STALLED = "a process stood still at a port, alone, for longer than its leases"
    WORKER_STALLED = "so did one that worked on a task"
    INTERLEAVED = "others ran while one waited for a port"


RATES: Mapping[Fault, float] = {
    Fault.TRANSACTION_ABORTED: 0.006,
    Fault.DATABASE_UNAVAILABLE: 0.006,
    Fault.COMMIT_UNANSWERED: 0.006,
    Fault.LOG_UNAVAILABLE: 0.03,
    Fault.APPEND_UNANSWERED: 0.08,
    Fault.DUPLICATED: 0.05,
    Fault.DELAYED: 0.15,
    Fault.REBALANCED: 0.015,
    Fault.RPC_LOST_BEFORE: 0.06,
    Fault.RPC_LOST_AFTER: 0.06,
    Fault.RPC_DUPLICATED: 0.06,
    Fault.CRASHED: 0.003,
    Fault.CLOCK_PAUSED: 0.004,
    Fault.CLOCK_JUMPED: 0.006,
    Fault.RELAY_ZOMBIE: 0.05,
    Fault.BLOBS_UNAVAILABLE: 0.1,
    Fault.PUT_UNANSWERED: 0.1,
    Fault.STALLED: 0.001,
    Fault.WORKER_STALLED: 0.1,
    Fault.INTERLEAVED: 0.06,
}


class Fate:
    """`calm` stops all faults; what it decides otherwise goes on."""

    def __init__(self, seed: int | str, rates: Mapping[Fault, float] = RATES) -> None:
        self._random = random.Random(f"fate {seed}")
        self._rates = dict(rates)
        self.counts: Counter[Fault] = Counter()
        self.calm = False

    def strikes(self, fault: Fault) -> bool:
        if self.calm or self._random.random() >= self._rates.get(fault, 0.0):
            return False
        self.counts[fault] += 1
        return True

    def choose(self, among: Sequence[T]) -> T:
        return among[self._random.randrange(len(among))]

    def between(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def count(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Aborts:
    """The randomness by which the embedded database loses transactions."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    def bits(self, count: int) -> int:
        raise NotImplementedError(f"{count} bits were asked of a source that only says whether to abort")

    def uniform(self, low: float, high: float) -> float:
        return low if self._fate.strikes(Fault.TRANSACTION_ABORTED) else high
