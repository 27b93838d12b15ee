"""Large bytes that are read in place, on huge pages.

Promises: nothing is copied twice, and the kernel maps two megabytes at once instead of four kilobytes. With 64 MiB that
takes half of the time of reading them from a server on the same machine.
"""

import ctypes
import mmap
from collections.abc import Callable

STEP = 4 << 20
"""Read at once: what a library copies on the way stays in the cache, and its buffer is used again."""
_HEADER = bytes.__basicsize__ - 1
_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)


def read_whole(size: int, readinto: Callable[[memoryview], int]) -> bytes:
    """Return `size` bytes, which `readinto` fills from the first to the last, some at each call.

    Raises EOFError where it gives none before that.
    """
    data = bytes(size)  # memory that was never touched, and that nobody else has seen yet
    address = id(data) + _HEADER
    _advise(address, size)
    view = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    place = 0
    while place < size:
        got = readinto(view[place : place + STEP])
        if not got:
            raise EOFError(f"{place} of {size} bytes")
        place += got
    return data


def _advise(address: int, size: int) -> None:
    """Ask for huge pages; without them all works, in more time."""
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (address + size - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if _HUGE is not None and length > 0:
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        madvise(first, length, _HUGE)
