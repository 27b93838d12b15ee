"""The first state of a model: a pure function of (seed, chunk).

Counter-based (Philox, Salmon et al. 2011): every chunk has a stream of its own, so any rank can make any chunk and all
shapes start from equal bits. Does not import torch.
"""

import numpy as np
import numpy.typing as npt

from tutti.model.chunks import Chunk, Layout


def initial_parameters(layout: Layout, chunk: Chunk, seed: int) -> npt.NDArray[np.float32]:
    """The parameters of a chunk, float32[chunk.length]: normal for matrices, one for gains, zero else."""
    stream = np.random.Generator(np.random.Philox(key=np.array([seed, chunk.index], dtype=np.uint64)))
    normal = stream.standard_normal(chunk.length, dtype=np.float32)
    values = np.zeros(chunk.length, dtype=np.float32)
    unit = next(unit for unit in layout.units if unit.name == chunk.unit)
    for field in unit.fields:
        start = max(field.start, chunk.start) - chunk.start
        stop = min(field.start + field.length, chunk.start + chunk.length) - chunk.start
        if start < stop:
            if field.std is None:
                values[start:stop] = 1.0
            elif field.std > 0:
                values[start:stop] = normal[start:stop] * np.float32(field.std)
    return values
