"""Principal: on whose behalf a call is made.

Promises: an immutable value that names a user by an opaque id, never by anything personal.
"""

from dataclasses import dataclass
from enum import Enum

from tutti.chassis.auth import Role

DEFAULT_TENANT = "tenants/default"


class Method(Enum):
    """The means by which a principal was authenticated."""

    TOKEN = "token"  # noqa: S105 - the name of a method
    SESSION = "session"


@dataclass(frozen=True)
class Principal:
    """`user` is a resource name, such as `users/u4k2m7qx9c`."""

    user: str
    roles: frozenset[Role]
    tenant: str
    method: Method

    def may(self, roles: frozenset[Role]) -> bool:
        """Return whether one of the principal's roles is among `roles`."""
        return not self.roles.isdisjoint(roles)
