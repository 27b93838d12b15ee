"""The parameters of a checkpoint as one vector; the optimizer's moments are not read. Does not import torch."""

import numpy as np
import numpy.typing as npt

from tutti.checkpoints.staged import StagedCheckpoint
from tutti.model.chunks import Kind


def parameters_of(staged: StagedCheckpoint) -> npt.NDArray[np.float32]:
    """float32 [layout.elements], chunk after chunk, each checked by its digest. Raises Damaged."""
    layout = staged.body.layout
    vector = np.empty(layout.elements, np.float32)
    for chunk, start in zip(layout.chunks, layout.offsets, strict=True):
        vector[start : start + chunk.length] = staged.read(chunk.index, Kind.PARAMETER)
    return vector
