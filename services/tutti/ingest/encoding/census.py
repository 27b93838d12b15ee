"""A census of the bytes of a page, before anything is made of them.

Promises: the kernel (census.c) counts what Python counts, in a tenth of the time.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from tutti.native.native import Kernel, kernel

CONTROLS = bytes(sorted(set(range(32)) - set(b"\t\n\f\r\x1b"))) + b"\x7f"
_SOURCE = Path(__file__).with_suffix(".c")


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def controls(data: bytes) -> int:
    """Return how many bytes of a page are CONTROLS."""
    library = native().library
    if library is None:
        return counted(data)
    found = ctypes.c_int64()
    library.census(data, ctypes.c_int64(len(data)), ctypes.byref(found))
    return found.value


def counted(data: bytes) -> int:
    """The same by Python alone: the definition that the kernel is held to."""
    return len(data) - len(data.translate(None, CONTROLS))
