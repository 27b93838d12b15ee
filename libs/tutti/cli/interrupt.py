"""Ctrl-C and SIGTERM, which mean the same to a command: stop, drained.

Promises: what is raised where nobody can hear it (a finalizer, a callback of gRPC) is not forgotten: the next `check`
raises it again. A signal that whoever started the command ignores stays ignored.
"""

import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | signal.Handlers
_told: list[int] = []


def handle(handler: Handler) -> None:
    """Give both signals to `handler`."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # who starts a command in the background may want that
            signal.signal(number, handler)


def raised() -> None:
    """From now on a signal raises KeyboardInterrupt where the command stands; an earlier one is forgotten."""
    _told.clear()
    handle(_raise)


def check() -> None:
    """Raise KeyboardInterrupt when there was a signal since `raised`. Call it as often as a wait looks again."""
    if _told:
        raise KeyboardInterrupt


def _raise(number: int, _frame: FrameType | None) -> None:
    _told.append(number)
    raise KeyboardInterrupt
