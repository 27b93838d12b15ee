"""Roles and the tokens that prove them.

Promises: tokens are random, compared in constant time and never logged; what a role may do is declared by each method,
never here.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from enum import Enum

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


PEOPLE: tuple[Role, ...] = (Role.OPERATOR, Role.ENGINEER, Role.ANNOTATOR)
HELD: tuple[Role, ...] = (*PEOPLE, Role.AGENT, Role.SERVICE)
"""The roles that have a token of their own in a data directory."""
NODE_TOKEN = "tutti-node-"  # noqa: S105 - how one begins
NODE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class Tokens:
    """One token a role."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        self._tokens = dict(tokens)
        self._known = [(role, token.encode()) for role, token in self._tokens.items()]

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

    def of(self, role: Role) -> str:
        return self._tokens[role]

    def role_of(self, token: str) -> Role | None:
        """The role of a token, or None; every token is compared, so the time reveals nothing."""
        found, given = None, token.encode()
        for role, known in self._known:
            if hmac.compare_digest(known, given):
                found = role
        return found

    def for_node(self, node: str) -> str:
        """A token of the role agent that is good for one node: who holds it cannot make one for another."""
        return f"{NODE_TOKEN}{node}.{self._proof(node)}"

    @property
    def door_secret(self) -> str:
        """The key with which the front door signs addresses of callers; it proves no role, and makes no token."""
        return hmac.new(self._tokens[Role.SERVICE].encode(), b"tutti door", hashlib.sha256).hexdigest()

    def node_of(self, token: str) -> str | None:
        """The node that a token was made for by `for_node`."""
        node, _, proof = token.removeprefix(NODE_TOKEN).rpartition(".")
        if not token.startswith(NODE_TOKEN) or NODE.fullmatch(node) is None or Role.AGENT not in self._tokens:
            return None
        return node if hmac.compare_digest(self._proof(node).encode(), proof.encode()) else None

    def _proof(self, node: str) -> str:
        key = self._tokens[Role.AGENT].encode()
        return hmac.new(key, f"tutti node {node}".encode(), hashlib.sha256).hexdigest()
