"""Origins: on whose behalf a resource was created or a task was enqueued, so that work goes on under that name.

Promises: written in the transaction of what it is about; only an opaque user, a tenant and the kind of the credential
are kept, no role: whoever asked for work long ago may be allowed less by now.
"""

from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from tutti.chassis.identity.principal import Principal, attributed

if TYPE_CHECKING:
    from tutti.chassis.store.unit import Unit


TASKS = "tasks/"


def of_task(id: str) -> str:
    """The name under which the origin of a task is kept."""
    return TASKS + id


def keep(unit: "Unit", name: str) -> None:
    """Record the principal of this unit's cause; nothing where no person asked."""
    principal = unit.cause.principal
    if principal is not None and not principal.is_machine:
        asked = {"user": principal.user, "tenant": principal.tenant, "owner": int(principal.is_owner)}
        unit.tx.execute(insert(unit.tables.origins), {"name": name, **asked})


def find(unit: "Unit", name: str) -> Principal | None:
    """Whoever asked for it, without any role; None if no person did."""
    table = unit.tables.origins
    row = unit.tx.execute(select(table).where(table.c.name == name)).first()
    if row is None:
        return None
    return attributed(row.user, row.tenant, owner=row.owner != 0)  # what was asked of version 0.2.0 was admitted by it
