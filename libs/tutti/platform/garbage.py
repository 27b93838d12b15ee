"""Garbage collection: seldom around the start of a process, and of everything once a minute while it serves.

Promises: objects that are made before the process begins its work, such as modules, cost no time in collections, while
they are made or at the end of the process; unreachable objects are freed within `COLLECT_SECONDS`.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator

YOUNG_OBJECTS = 10_000
"""The number of objects made since the last collection at which the next one begins. CPython has 700."""
COLLECT_SECONDS = 60.0
"""CPython looks at the oldest objects after a quarter more of them came, which is hours in a host. Meanwhile each call
leaves a cycle of gRPC there, and each refused one its frames: the heap grows with the calls.
"""


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Make objects that live as long as the process does: collect nothing inside, and never look at them later.

    Threads that run meanwhile collect nothing either, and cycles that exist at the end are never freed, so what is done
    inside must be short and done once. A collection among imported modules finds next to nothing, and takes a tenth of
    the time of their import; one at the end of the process takes as much again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def collect_until(stopped: Callable[[float], bool]) -> None:
    """Collect everything each `COLLECT_SECONDS`. `stopped` waits for a number of seconds; True ends it."""
    while not stopped(COLLECT_SECONDS):
        gc.collect()


def collect_seldom() -> None:
    """Collect after `YOUNG_OBJECTS`, for processes that make many objects which they keep."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
