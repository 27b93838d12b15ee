"""The kernel of near-duplicates: minhash.c, or why there is none here; it costs time alone."""

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.native.native import Kernel, kernel

SOURCE = Path(__file__).with_name("minhash.c")


def native() -> Kernel:
    return kernel(SOURCE)


def address(values: npt.NDArray[np.generic]) -> ctypes.c_void_p:
    """The address of a contiguous array; keep the array while this is used."""
    return values.ctypes.data_as(ctypes.c_void_p)
