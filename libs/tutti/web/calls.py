"""Calls of scripts as bytes: how they are routed, read and answered, whether a server received them or not. Pure.

Promises: a call that no server received is read like one that arrived over HTTP.
"""

from collections.abc import Mapping
from json import dumps, loads

from tutti.chassis.errors import PermissionDenied, Refused, declare
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal

RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
declare({RATE_LIMIT_EXCEEDED: "the limit of a token is reached; the message says which, and when to try again"})


class TooMany(Refused):
    """A call of a program beyond a limit: the status 429. `headers` say what is left, and when to try again."""

    def __init__(self, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(RATE_LIMIT_EXCEEDED, message)
        self.headers = headers


class HttpProblem(Exception):
    """A request that is refused before any service sees it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def segments(route: str, path: str) -> Mapping[str, str] | None:
    """The parts of a path that the route has in braces; None for a path of another route."""
    names, parts = route.split("/"), path.split("/")
    if len(names) != len(parts):
        return None
    found: dict[str, str] = {}
    for name, part in zip(names, parts, strict=True):
        if name.startswith("{") and part:
            found[name[1:-1]] = part
        elif name != part:
            return None
    return found


def check_role(principal: Principal, roles: frozenset[Role]) -> None:
    """Raises PermissionDenied unless the principal has one of these roles."""
    if not principal.may(roles):
        raise PermissionDenied(f"this page is for {', '.join(sorted(role.value for role in roles))}")


def check_size(size: int, most: int) -> None:
    """Raises HttpProblem for a body that is longer than `most` bytes."""
    if size > most:
        raise HttpProblem(413, f"the form has more than {most} bytes")


def read(body: bytes) -> object:
    """The JSON that a script sent. Raises HttpProblem."""
    try:
        return loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise HttpProblem(400, "the body is not JSON text in UTF-8") from None


def written(found: object) -> str:
    """A body as JSON text."""
    return dumps(found, ensure_ascii=False, allow_nan=False)


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not JSON")
