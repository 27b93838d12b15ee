"""Garbage collection around the start of a process.

Promises: objects that are made before the process begins its work, such as modules, cost no time in collections, while
they are made or at the end of the process.
"""

import contextlib
import gc
from collections.abc import Iterator

YOUNG_OBJECTS = 10_000
"""The number of objects made since the last collection at which the next one begins. CPython has 700."""


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


def collect_seldom() -> None:
    """Collect after `YOUNG_OBJECTS`, for processes that make many objects which they keep."""
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
