"""Waiting for work that others do: asked again and again, through hiccups, and given up with Ctrl-C."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from tutti.cli import interrupt
from tutti.cli.failures import Failure
from tutti.cli.identity import fresh_id
from tutti.client import Problem
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, CancelRequest, State

ENDED = (STATE_DONE, STATE_FAILED, STATE_CANCELLED)
# Somebody may be restarting a service or its database; longer than this is not a hiccup.
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.1
POLL_SECONDS = 0.25  # for a run


class Work(Protocol):
    """A resource that somebody works on."""

    @property
    def state(self) -> State.ValueType: ...
    @property
    def reason(self) -> str: ...


T = TypeVar("T")
W = TypeVar("W", bound=Work)


def answers(look: Callable[[], T], gone: Callable[[], bool], every: float = LOOK_SECONDS) -> Iterator[T]:
    """Call `look` every so many seconds, and yield its results as long as the caller iterates.

    `gone` says that nobody will answer any more. Raises the Problem of a look that is no hiccup.
    """
    last_word = time.monotonic()
    while True:
        interrupt.check()
        try:
            found = look()
            last_word = time.monotonic()
        except Problem as problem:
            if not problem.transient or gone() or time.monotonic() - last_word > PATIENCE_SECONDS:
                raise
        else:
            yield found
        time.sleep(every)


def done(look: Callable[[], W], gone: Callable[[], bool]) -> W:
    """Wait until the work is done. Raises Failure when it ends otherwise."""
    found = next(each for each in answers(look, gone) if each.state in ENDED)
    if found.state != STATE_DONE:
        raise Failure(found.reason)
    return found


@contextlib.contextmanager
def cancelling(cancel: Callable[[CancelRequest], object], name: str) -> Iterator[None]:
    """Ctrl-C ends the work too: nobody else waits for it."""
    try:
        yield
    except KeyboardInterrupt:
        cancel(CancelRequest(name=name, request_id=fresh_id()))
        raise
