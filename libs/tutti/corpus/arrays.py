"""Arrays in files of their bytes.

Promises: what could not be written raises the error of the operating system, at the latest when the file is closed.
`ndarray.tofile` raises one without a number, by which nobody knows a full disk, and none at all for its last bytes.
"""

from __future__ import annotations

from io import BufferedIOBase
from pathlib import Path
from typing import Any

from tutti.native.arrays import np, npt


def append(file: BufferedIOBase, values: npt.NDArray[Any]) -> None:
    """Write an array of any shape in the order of its items. Raises OSError."""
    file.write(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def write(path: Path, values: npt.NDArray[Any]) -> None:
    """Make a file of an array. Raises OSError."""
    with path.open("wb") as file:
        append(file, values)
