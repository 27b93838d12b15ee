"""The parameters of a checkpoint as one vector; the optimizer's moments are not read. Does not import torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tutti.checkpoints.staged import StagedCheckpoint
from tutti.model.chunks import Kind
from tutti.native.arrays import np, npt

Floats: TypeAlias = "npt.NDArray[np.float32]"


def parameters_of(
    staged: StagedCheckpoint,
    *,
    into: Floats | None = None,
    advanced: Callable[[int, int], None] = lambda done, total: None,
) -> Floats:
    """float32 [layout.elements], chunk after chunk, each checked by its digest. Raises Damaged.

    `into` is filled where it is given; `advanced` is called with the bytes read so far and in all.
    """
    layout = staged.body.layout
    vector = np.empty(layout.elements, np.float32) if into is None else into
    for chunk, start in zip(layout.chunks, layout.offsets, strict=True):
        vector[start : start + chunk.length] = staged.read(chunk.index, Kind.PARAMETER)
        advanced(4 * (start + chunk.length), 4 * layout.elements)
    return vector
