"""Roles and the tokens that prove them.

Promises: tokens are random, compared in constant time and never logged; a service can be given what verifies the tokens
of people and nodes without what makes them; what a role may do is declared by each method, never here.
"""

import functools
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from enum import Enum

from tutti.chassis.identity.signatures import SigningKey, verifies

AUTHORIZATION = "authorization"
SCHEME = "Bearer "


class Role(Enum):
    """The role of a caller; the values are those of tutti.options.v1.Role in lower case.

    SIMULATOR is not among those: simulated annotators send calls of pages alone, from inside the service.
    """

    OPERATOR = "operator"
    ENGINEER = "engineer"
    ANNOTATOR = "annotator"
    AGENT = "agent"
    SERVICE = "service"
    JOINER = "joiner"
    SIMULATOR = "simulator"
    CLIENT = "client"


PEOPLE: tuple[Role, ...] = (Role.OPERATOR, Role.ENGINEER, Role.ANNOTATOR)
USERS: tuple[Role, ...] = (*PEOPLE, Role.CLIENT)
"""The roles that a user can have."""
HELD: tuple[Role, ...] = (*PEOPLE, Role.AGENT, Role.SERVICE)
"""The roles that have a token of their own in a data directory."""
NODE_TOKEN = "tutti-node-"  # noqa: S105 - how one begins
NODE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
DIGEST = "sha256:"
"""The prefix of a token that is known by its SHA-256 alone, in hexadecimal digits."""
VERIFIES = "ed25519:"
"""The prefix of the public key, in hexadecimal digits, that verifies the tokens of nodes."""
_PURPOSE = "tutti node"
_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_KNOWN_NODES = 4096


class Tokens:
    """One token a role: the token itself, or its digest, or for agents the key that verifies the tokens of nodes."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        self._tokens = dict(tokens)
        self._known = [
            (role, (token.removeprefix(DIGEST) if token.startswith(DIGEST) else _digest(token)).encode())
            for role, token in self._tokens.items()
            if not token.startswith(VERIFIES)
        ]
        # Verifying takes a tenth of a millisecond of CPU time: each agent's token is verified once.
        self._verified = functools.lru_cache(_KNOWN_NODES)(self._verify)

    @classmethod
    def random(cls) -> "Tokens":
        return cls({role: f"tutti-{role.value}-{secrets.token_urlsafe(32)}" for role in HELD})

    @classmethod
    def parse(cls, text: str, roles: Iterable[Role] = HELD) -> "Tokens":
        """Lines of `role token`, one for each of `roles` at least. Raises ValueError."""
        tokens: dict[Role, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 2 or words[0] not in {role.value for role in HELD}:
                raise ValueError(f"line {number} is not `role token`")
            tokens[Role(words[0])] = words[1]
        if missing := [role.value for role in roles if role not in tokens]:
            raise ValueError(f"no token for {', '.join(missing)}")
        return cls(tokens)

    def text(self) -> str:
        return "".join(f"{role.value} {token}\n" for role, token in self._tokens.items())

    def for_service(self) -> "Tokens":
        """Return the tokens that a service needs: its own, and of the others only what verifies them."""
        digests = {role: DIGEST + _digest(self.of(role)) for role in PEOPLE}
        verifies = VERIFIES + self._node_key.public
        return Tokens({**digests, Role.AGENT: verifies, Role.SERVICE: self.of(Role.SERVICE)})

    def of(self, role: Role) -> str:
        """The token of a role. Raises ValueError where it is not known, but only what verifies it."""
        token = self._tokens[role]
        if token.startswith((DIGEST, VERIFIES)):
            raise ValueError(f"the token of the role {role.value} is not here, only what verifies it")
        return token

    def role_of(self, token: str) -> Role | None:
        """The role of a token, or None; every token is compared, so the time reveals nothing."""
        found, given = None, _digest(token).encode()
        for role, known in self._known:
            if hmac.compare_digest(known, given):
                found = role
        return found

    def for_node(self, node: str) -> str:
        """A token of the role agent that is good for one node: who holds it cannot make one for another."""
        return f"{NODE_TOKEN}{node}.{self._node_key.sign(_PURPOSE, node)}"

    @property
    def door_secret(self) -> str:
        """The key with which the front door signs addresses of callers; it proves no role, and makes no token."""
        return hmac.new(self._tokens[Role.SERVICE].encode(), b"tutti door", hashlib.sha256).hexdigest()

    def node_of(self, token: str) -> str | None:
        """The node that a token was made for by `for_node`."""
        node, _, signature = token.removeprefix(NODE_TOKEN).rpartition(".")
        shaped = token.startswith(NODE_TOKEN) and NODE.fullmatch(node) and _SIGNATURE.fullmatch(signature)
        return node if shaped and Role.AGENT in self._tokens and self._verified(node, signature) else None

    def _verify(self, node: str, signature: str) -> bool:
        known = self._tokens[Role.AGENT]
        key = known.removeprefix(VERIFIES) if known.startswith(VERIFIES) else self._node_key.public
        return verifies(_PURPOSE, node, signature, key)

    @functools.cached_property
    def _node_key(self) -> SigningKey:
        """The key of the tokens of nodes, which follows from the token of all agents."""
        return SigningKey(hmac.new(self.of(Role.AGENT).encode(), b"tutti nodes", hashlib.sha256).digest())


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
