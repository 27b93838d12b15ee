"""Compactor: removes from the event log what its topics need not keep.

Promises: one for a host, first soon after the start and then every hour; where a broker does this itself it costs
nothing.
"""

from tutti.backbone import EventLog

HOUR = 3600.0


class Compactor:
    """A Loop that works long in its own step."""

    patient = True

    def __init__(self, log: EventLog, *, interval: float = HOUR) -> None:
        self.name, self.interval = "event log compactor", interval
        self._log = log

    def step(self) -> bool:
        self._log.compact()
        return False
