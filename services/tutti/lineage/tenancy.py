"""Tenancy: the resources of the graph that do not exist for a caller, as their owners say.

Promises: nothing is remembered; a resource that its owner does not show to the caller is never named.
"""

from collections.abc import Callable, Iterable

from tutti.chassis.errors import NotFound
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.kinds import every_kind
from tutti.chassis.service import Host
from tutti.lineage.graph import Walk

KINDS = {kind.plural: kind for kind in every_kind() if kind.tenants}


def hidden(host: Host, names: Iterable[str], principal: Principal) -> set[str]:
    """Return the names that do not exist for a caller, on whose behalf their owners are asked. Raises Problem."""
    return set() if principal.is_machine else {name for name in names if not _exists(host, name)}


def shown(host: Host, principal: Principal, walk: Callable[[frozenset[str]], Walk]) -> Walk:
    """Walk with those names left out that do not exist for a caller. Raises Problem."""
    asked, without = set[str](), set[str]()
    while True:
        found = walk(frozenset(without))
        new = hidden(host, set(found.names) - asked, principal)
        if not new:
            return found
        asked |= set(found.names)
        without |= new


def _exists(host: Host, name: str) -> bool:
    kind = KINDS.get(name.partition("/")[0])
    if kind is None:
        return True
    try:
        kind.get(host.channel(kind.owner), name)
    except NotFound:
        return False
    return True
