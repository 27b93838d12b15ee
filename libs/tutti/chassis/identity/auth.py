"""Roles and the tokens that prove them.

Promises: tokens are random, compared in constant time and never logged; what a role may do is declared by each method,
never here.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping
from enum import Enum

AUTHORIZATION = "authorization"
SCHEME = "Bearer "


class Role(Enum):
    """Who calls; the values are those of tutti.options.v1.Role in lower case."""

    OPERATOR = "operator"
    ENGINEER = "engineer"
    ANNOTATOR = "annotator"
    AGENT = "agent"
    SERVICE = "service"


class Tokens:
    """One token a role."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        self._tokens = dict(tokens)

    @classmethod
    def random(cls) -> "Tokens":
        return cls({role: f"tutti-{role.value}-{secrets.token_urlsafe(32)}" for role in Role})

    @classmethod
    def parse(cls, text: str, roles: Iterable[Role] = Role) -> "Tokens":
        """Lines of `role token`, one for each of `roles` at least. Raises ValueError."""
        tokens: dict[Role, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            words = line.split()
            if len(words) != 2 or words[0] not in {role.value for role in Role}:
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
        """Whose token it is; every token is compared, so that the time tells nothing."""
        found = None
        for role, known in self._tokens.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                found = role
        return found
