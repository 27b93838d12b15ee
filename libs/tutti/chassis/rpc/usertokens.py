"""Resolve tokens of users and of joining machines to principals, through the service `access`.

Promises: `access` is asked only about texts in the form of such a token; an answer is cached for a few seconds, so that
many calls cost one request, and a revoked token is refused soon.
"""

import hashlib
import threading
import time
from collections.abc import Callable

import grpc

from tutti.chassis.errors import Refused
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Method, Principal
from tutti.contracts.access.v1 import AuthenticateTokenRequest
from tutti.contracts.access.v1 import Principal as WirePrincipal
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.options.v1 import Role as WireRole

PREFIX, JOINED, INVITATION = "tutti-user-", "tutti-joined-", "tutti-invitation-"
FRESH_SECONDS = 5.0
MOST = 1000  # answers that are remembered


class UserTokens:
    """Safe for any thread."""

    def __init__(self, channel: Callable[[str], grpc.Channel]) -> None:
        self._channel = channel
        self._known: dict[str, tuple[float, Principal | None]] = {}
        self._lock = threading.Lock()

    def find(self, token: str) -> Principal | None:
        """The user of a token; None where there is none. Raises Unavailable while access is away."""
        if not token.startswith((PREFIX, JOINED, INVITATION)):
            return None
        digest, now = hashlib.sha256(token.encode()).hexdigest(), time.monotonic()
        with self._lock:
            asked_at, found = self._known.get(digest, (float("-inf"), None))
        if now - asked_at < FRESH_SECONDS:
            return found
        try:
            answer = AccessServiceStub(self._channel("access")).AuthenticateToken(
                AuthenticateTokenRequest(token_digest=digest)
            )
            found = principal_of(answer.principal, Method.TOKEN)
        except Refused:
            found = None
        with self._lock:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[digest] = (now, found)
        return found


def principal_of(wire: WirePrincipal, method: Method) -> Principal:
    """The principal that access names."""
    roles = frozenset(Role(WireRole.Name(role).removeprefix("ROLE_").lower()) for role in wire.roles)
    return Principal(wire.user, roles, wire.tenant, method, wire.credential)
