"""What a method knows of the call that it answers.

Promises: an immutable value; the role has been checked against the method's access option.
"""

from dataclasses import dataclass

from tutti.chassis.auth import Role


@dataclass(frozen=True)
class Call:
    role: Role
    request_id: str
    peer: str
    deadline_seconds: float
