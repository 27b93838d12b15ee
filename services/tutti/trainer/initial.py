"""The parameters that a training begins with, of a checkpoint. Does not import torch."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tutti.checkpoints.staged import StagedCheckpoint
from tutti.model.chunks import Layout
from tutti.model.spec import SpecError

Read = Callable[[int, str], npt.NDArray[np.float32]]


def initial_of(staged: StagedCheckpoint, layout: Layout) -> Read:
    """Return what reads the tensors of a layout's chunks out of a checkpoint of the same layout, or of the same without
    a scalar head; a head that the checkpoint does not have is zero. Raises SpecError for any other.
    """
    old = staged.body.layout
    if old.digest == layout.digest:
        return staged.read
    if not layout.model.scalar_head or old.model.scalar_head or old.units != layout.units[:-1]:
        raise SpecError(
            f"{staged.body.name} has layout {old.digest}; expected {layout.digest}, or the same without a scalar head"
        )

    def read(index: int, kind: str) -> npt.NDArray[np.float32]:
        chunk, start = layout.chunks[index], layout.offsets[index]
        values = np.zeros(chunk.length, np.float32)
        for each, at in zip(old.chunks, old.offsets, strict=True):
            first, last = max(at, start), min(at + each.length, start + chunk.length)
            if first < last:
                values[first - start : last - start] = staged.read(each.index, kind)[first - at : last - at]
        return values

    return read
