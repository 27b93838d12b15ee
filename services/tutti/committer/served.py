"""Checkpoints that deployments serve; pruning keeps them, since a replica that starts again needs their bytes.

Promises: follows from the events of deployments alone, so that a deployment which is just being asked for may come too
late; it then says that its checkpoint was pruned.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Table, delete, insert, select

from tutti.chassis.events.event import Event
from tutti.chassis.store.unit import Unit
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_FAILED, DEPLOYMENT_STATE_STOPPED, Deployment

ENDED = (DEPLOYMENT_STATE_STOPPED, DEPLOYMENT_STATE_FAILED)


class Served:
    """`table` has a row for each deployment that has not ended."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def on_deployment(self, unit: Unit, events: Sequence[Event]) -> None:
        """Consume deployments."""
        table = self._table
        for event in events:
            deployment: Deployment = event.message
            unit.tx.execute(delete(table).where(table.c.deployment == deployment.name))
            if deployment.state not in ENDED:
                row = {"deployment": deployment.name, "checkpoint": deployment.spec.checkpoint}
                unit.tx.execute(insert(table), row)

    def names(self, unit: Unit) -> set[str]:
        """The names of the checkpoints that are served."""
        return set(unit.tx.execute(select(self._table.c.checkpoint)).scalars())
