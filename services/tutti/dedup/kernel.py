"""The kernel of near-duplicates: minhash.c, or why there is none here; it costs time alone."""

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.chassis.service import Finding
from tutti.corpus.native import Kernel, kernel


def native() -> Kernel:
    return kernel(Path(__file__).with_name("minhash.c"))


def finding(found: Kernel) -> Finding:
    """What the doctor says of a kernel; doing without is slow, not wrong."""
    if found.library is not None:
        return Finding("kernel", True, "near-duplicates are found by the compiled kernel")
    return Finding("kernel", True, f"near-duplicates are found by numpy, some fifteen times slower: {found.why_not}")


def address(values: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    """Where a contiguous array begins; keep the array while this is used."""
    return values.ctypes.data_as(ctypes.c_void_p)
