"""Failures of a rank: documented reasons, the message, the ranks at fault.

A failure is told to the agent before the rank exits; peers that only lost contact say so, so that the first cause
stands out.
"""

from collections.abc import Sequence
from enum import StrEnum

from tutti.contracts.scheduler.v1 import PolicyStop, Spike, StopRule


class Reason(StrEnum):
    """The reason of a failure, for machines."""

    RENDEZVOUS_TIMEOUT = "RENDEZVOUS_TIMEOUT"
    PEER_LOST = "PEER_LOST"
    SETUP_MISMATCH = "SETUP_MISMATCH"
    STEP_MISMATCH = "STEP_MISMATCH"
    AUDIT_FAILED = "AUDIT_FAILED"
    DEVICE_MISSING = "DEVICE_MISSING"
    DATA_REFUSED = "DATA_REFUSED"
    STATE_REFUSED = "STATE_REFUSED"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    DIVERGED = "DIVERGED"
    ROLLOUT_FAILED = "ROLLOUT_FAILED"
    PARITY_LOST = "PARITY_LOST"
    REWARD_FAILED = "REWARD_FAILED"
    POLICY_STOPPED = "POLICY_STOPPED"
    SPIKE = "SPIKE"
    RANK_ERROR = "RANK_ERROR"


FINAL = (Reason.POLICY_STOPPED, Reason.DIVERGED)
"""Reasons that follow from the training alone: each attempt would end in the same way."""


class RankFailure(Exception):
    """This attempt cannot go on; `ranks` are missing or at fault, `stop` is the stop rule that was reached, if any,
    `spike` the one that the training goes back before.
    """

    stop: PolicyStop | None = None
    spike: Spike | None = None

    def __init__(self, reason: Reason, message: str, *, ranks: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.reason, self.ranks = reason, tuple(ranks)


class StopRuleReached(RankFailure):
    """A policy reached a stop rule: `seen` is a value of the quantity that the rule limits which `limit` rules out."""

    def __init__(self, rule: "StopRule.ValueType", message: str, *, seen: float, limit: float) -> None:
        super().__init__(Reason.POLICY_STOPPED, message)
        self.stop = PolicyStop(rule=rule, seen=seen, limit=limit)


class GoesBack(RankFailure):
    """The training goes back before a spike, whose data the next attempt leaves out; every rank says so."""

    def __init__(self, spike: Spike) -> None:
        super().__init__(Reason.SPIKE, f"goes back before step {spike.first}, without the data of the spike")
        self.spike = spike
