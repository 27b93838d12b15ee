"""The context of a call that a method answers.

Promises: an immutable value; the role has been checked against the method's access option.
"""

from dataclasses import dataclass

from google.protobuf.message import Message

from tutti.chassis.errors import InvalidField, PermissionDenied, declare
from tutti.chassis.identity.auth import Role
from tutti.chassis.identity.principal import Principal

OTHER_NODE = "OTHER_NODE"
declare({OTHER_NODE: "the credential belongs to the agent of another node"}, code=PermissionDenied.code)
MAX_REQUEST_ID = 512  # longer than a name, since ids are made of names


@dataclass(frozen=True)
class Call:
    """`request_id` is empty when the request brought none; `peer` is the address of the caller; `user` is a user with
    a token of its own, or whom a service that calls named."""

    role: Role
    request_id: str
    peer: str
    deadline_seconds: float
    user: Principal | None = None

    @property
    def principal(self) -> Principal:
        """On whose behalf the call is made."""
        return self.user or Principal.of_role(self.role)

    def require_node(self, name: str) -> None:
        """Raise PermissionDenied where the caller is the agent of one node, and that is not `name`."""
        own = self.principal.user
        if own.startswith("nodes/") and own != name:
            raise PermissionDenied(
                f"the caller's credential is that of {own}, so it cannot act as {name}: start the agent as that node, "
                f"or invite this one with `tutti agent invite`",
                reason=OTHER_NODE,
            )


def request_id_of(request: Message) -> str:
    """The caller's id for what it asks; it is in the header of every event that comes of it. Raises InvalidField."""
    found = str(getattr(request, "request_id", ""))
    if len(found) > MAX_REQUEST_ID or not found.isprintable():
        raise InvalidField(
            "request_id",
            seen=f"{len(found)} characters, {found[:20]!r} first",
            expected=f"at most {MAX_REQUEST_ID} printable characters",
        )
    return found
