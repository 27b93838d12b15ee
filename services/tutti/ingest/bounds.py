"""Bounds: the private addresses that crawls may connect to, whatever their recipes allow.

Promises: with users of more than one tenant, crawls reach no private address unless the operator names its range, since
they would act inside the operator's network for everybody.
"""

from tutti.chassis.identity.principal import DEFAULT_TENANT
from tutti.chassis.rpc import kinds
from tutti.chassis.service import Host
from tutti.ingest.ranges import EVERY
from tutti.ingest.settings import IngestSettings


def private_ranges(host: Host) -> tuple[str, ...]:
    """Return the ranges of the setting; if it is unset, all of them for one tenant and none for more.

    Raises Problem while access is away.
    """
    declared = host.settings(IngestSettings).private_ranges
    if declared is not None:
        return tuple(declared)
    tenants = {DEFAULT_TENANT}
    for page in kinds.named("users").pages(host.channel("access"), fields=["tenant"], damaged=lambda reason: None):
        tenants |= {user.tenant for user in page}
    return EVERY if len(tenants) == 1 else ()
