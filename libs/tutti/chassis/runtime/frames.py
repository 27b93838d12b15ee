"""The frames of all threads, for those who say where a process stands still."""

import gc
import sys
from types import FrameType


def current_frames() -> dict[int, FrameType]:
    """Return the frame that each thread is in, by its identifier; nothing is collected meanwhile.

    CPython before 3.11.9 holds the lock of its list of threads while it makes the frames: if a garbage collection then
    lets another thread run, the process can stop for ever (gh-106883).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()
