"""Cause: what a piece of work is an effect of, and on whose behalf it is done.

Promises: a cause is kept in a context variable, so that units and calls pick it up without being told; nothing here
imports SQL or gRPC, since every client reads it.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tutti.chassis.identity.principal import Principal
from tutti.chassis.spans import current_traceparent


@dataclass(frozen=True)
class Cause:
    """`request_id` and `traceparent` travel in the headers of events, and the user of the `principal`.

    `action` is set while a call or a form is answered: changes are recorded in the audit trail under it,
    with the `address` that the call came from.
    """

    request_id: str = ""
    traceparent: str = ""
    principal: Principal | None = None
    action: str = ""
    address: str = ""

    def afterwards(self) -> "Cause":
        """The cause of work that follows once the call was answered."""
        return replace(self, action="", address="")


_cause: ContextVar[Cause | None] = ContextVar("tutti_cause", default=None)


@contextlib.contextmanager
def caused_by(cause: Cause) -> Iterator[None]:
    """Units that are run inside are effects of `cause`; without a traceparent they belong to the open span."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


def current_cause() -> Cause:
    """The cause of a unit that runs here."""
    given = _cause.get() or Cause()
    return replace(given, traceparent=given.traceparent or current_traceparent())
