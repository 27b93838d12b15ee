"""The span of a call that this process makes: in a trace of `telemetry` where it is loaded, else an id alone.

Promises: imports nothing but the standard library, so that a program that only calls a platform needs no library for
traces; the attempts of a call have the same trace id either way.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

TRACEPARENT = "traceparent"
_own: ContextVar[str] = ContextVar("tutti_traceparent", default="")


@contextmanager
def _calling(_: str) -> Iterator[None]:
    trace = _own.get().split("-")[1] if _own.get() else secrets.token_hex(16)
    token = _own.set(f"00-{trace}-{secrets.token_hex(8)}-00")
    try:
        yield
    finally:
        _own.reset(token)


_open: Callable[[str], AbstractContextManager[object]] = _calling
_current: Callable[[], str] = _own.get


def use(opened: Callable[[str], AbstractContextManager[object]], current: Callable[[], str]) -> None:
    """Make the spans of calls with `opened(name)`, and read the traceparent of the open one with `current`."""
    global _open, _current
    _open, _current = opened, current


def calling(name: str) -> AbstractContextManager[object]:
    """A span of a call, below the one that is open here."""
    return _open(name)


def current_traceparent() -> str:
    """The W3C traceparent of the span that is open here; empty when there is none."""
    return _current()
