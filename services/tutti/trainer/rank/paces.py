"""Paces as a rank reports them."""

from tutti.contracts.scheduler.v1 import Pace, Straggler
from tutti.model.pace import Finding


def to_wire(finding: Finding) -> Pace:
    """Return the message of a finding. The nodes of its ranks are known to the scheduler alone."""
    slow = [Straggler(rank=each.rank, ratio=each.ratio) for each in finding.stragglers]
    return Pace(step=finding.step, stragglers=slow)
