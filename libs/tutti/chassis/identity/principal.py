"""Principal: on whose behalf a call is made.

Promises: an immutable value that names a user by an opaque id, never by anything personal. On the way from one service
to the next it keeps its user and its tenant and has the roles of the service that calls, so that it can never do more
than its caller.
"""

import re
from dataclasses import dataclass, field
from enum import Enum

from tutti.chassis.identity.auth import PEOPLE, Role

ON_BEHALF_OF = "on-behalf-of"
DEFAULT_TENANT = "tenants/default"
MACHINES = frozenset({Role.AGENT, Role.SERVICE, Role.JOINER, Role.SIMULATOR})
_OWNERS = frozenset(f"users/{role.value}" for role in (*PEOPLE, Role.SERVICE))
_PERSONAL = " personal"
_FORM = re.compile(r"(users/[a-z0-9][a-z0-9.-]{0,99}) (tenants/[a-z0-9][a-z0-9.-]{0,99})(" + _PERSONAL + ")?")


class Method(Enum):
    """The means by which a principal was authenticated."""

    TOKEN = "token"  # noqa: S105 - the name of a method
    SESSION = "session"
    DELEGATED = "delegated"


@dataclass(frozen=True)
class Principal:
    """`user` is a resource name, such as `users/u4k2m7qx9c`, or `nodes/a` where it is the agent of that node alone.

    `credential` is the digest of the token that was presented; empty for tokens of roles, sessions and delegation.
    `is_owner` is true for the holder of a token of the platform's own file `tokens`, and in work that was asked for
    with one: it reads what the platform can read. A session or a personal token of the same user does not. Agents share
    their token with no person, and a service acts for itself only in work that was admitted.
    """

    user: str
    roles: frozenset[Role]
    tenant: str
    method: Method
    credential: str = field(default="", compare=False, repr=False)
    is_owner: bool = False

    @classmethod
    def of_role(cls, role: Role) -> "Principal":
        """Whoever has the token of a role: `users/operator` and so on."""
        user = f"users/{role.value}"
        return cls(user, frozenset({role}), DEFAULT_TENANT, Method.TOKEN, is_owner=user in _OWNERS)

    @classmethod
    def of_node(cls, node: str, role: Role = Role.AGENT) -> "Principal":
        """The agent of one node, `nodes/a` and so on, or a machine that is invited to be it."""
        return cls(node, frozenset({role}), DEFAULT_TENANT, Method.TOKEN)

    @classmethod
    def of_simulator(cls, user: str) -> "Principal":
        """A simulated annotator, such as `campaigns/a/annotators/s001`."""
        return cls(user, frozenset({Role.SIMULATOR}), DEFAULT_TENANT, Method.TOKEN)

    @property
    def is_machine(self) -> bool:
        """True if there is no person behind it: an agent, a simulator, or a service that acts for itself."""
        return self.method is Method.TOKEN and self.roles <= MACHINES

    def sees(self, tenant: str) -> bool:
        """Return whether what belongs to a tenant exists for the principal: its own, and for machines all."""
        return self.is_machine or self.tenant == tenant

    def may(self, roles: frozenset[Role]) -> bool:
        """Return whether one of the principal's roles is among `roles`."""
        return not self.roles.isdisjoint(roles)


def delegation(principal: Principal | None) -> str:
    """The value of the metadata `on-behalf-of` that a service sends; empty where it acts for itself.

    It acts for users alone: not for the agent `nodes/a`, whose report was the cause of an event. Services of earlier
    versions know no owner but the user's name, so a user with such a name is marked where it is none.
    """
    if principal is None or principal.is_machine:
        return ""
    mark = _PERSONAL if principal.user in _OWNERS and not principal.is_owner else ""
    value = f"{principal.user} {principal.tenant}{mark}"
    return value if _FORM.fullmatch(value) else ""


def delegated(value: str, caller: Role) -> Principal | None:
    """The principal that a service named; None where the value is none, or the caller is no service."""
    found = _FORM.fullmatch(value)
    if found is None or caller is not Role.SERVICE:
        return None
    owner = found[1] in _OWNERS and not found[3]
    return Principal(found[1], frozenset({caller}), found[2], Method.DELEGATED, is_owner=owner)


def attributed(user: str, tenant: str = "", *, owner: bool = False) -> Principal | None:
    """Somebody who asked for work that goes on, as the `owner` if a token of the file `tokens` did; None for nobody."""
    if not user:
        return None
    is_owner = owner and user in _OWNERS
    return Principal(user, frozenset(), tenant or DEFAULT_TENANT, Method.DELEGATED, is_owner=is_owner)
