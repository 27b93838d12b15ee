"""The parameters that a training begins with, of a checkpoint. Does not import torch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tutti.checkpoints.staged import StagedCheckpoint, open_staged
from tutti.contracts.trainer.v1 import Start
from tutti.model.chunks import VALUE, Layout, Unit
from tutti.model.spec import SpecError

Read = Callable[[int, str], npt.NDArray[np.float32]]
SCALAR = "scalar"
CRITIC = "critic"
"""The role of the checkpoint that a value model begins with."""


@dataclass(frozen=True)
class _Source:
    """A unit of a checkpoint."""

    checkpoint: StagedCheckpoint
    unit: Unit

    def read(self, kind: str, start: int, length: int) -> npt.NDArray[np.float32]:
        """The elements from `start` on of the unit's flat vector."""
        values = np.zeros(length, np.float32)
        for each in self.checkpoint.body.layout.chunks:
            if each.unit == self.unit.name:
                first, last = max(each.start, start), min(each.start + each.length, start + length)
                if first < last:
                    part = self.checkpoint.read(each.index, kind)[first - each.start : last - each.start]
                    values[first - start : last - start] = part
        return values


def initial_of(staged: StagedCheckpoint, layout: Layout, critic: StagedCheckpoint | None = None) -> Read:
    """Return what reads the tensors of a layout's chunks out of a checkpoint of the same model.

    A scalar head that the checkpoint does not have is zero; a scalar head or a value model that the layout does not
    have is left out. A value model begins with the `critic`, a reward model. Raises SpecError where units differ.
    """
    if staged.body.layout.digest == layout.digest and critic is None:
        return staged.read
    sources = _units(staged)
    if critic is not None:
        sources |= {f"{VALUE}{name}": source for name, source in _units(critic).items()}
    found: dict[str, _Source] = {}
    for unit in layout.units:
        source = sources.get(unit.name)
        if source is not None and (source.unit.fields, source.unit.length) == (unit.fields, unit.length):
            found[unit.name] = source
        elif source is not None or unit.name != SCALAR:
            raise _differs(staged, layout, critic, unit.name)
    known = {unit.name for unit in layout.units}
    for name in (unit.name for unit in staged.body.layout.units):
        if name not in known and name != SCALAR and not name.startswith(VALUE):
            raise _differs(staged, layout, critic, name)

    def read(index: int, kind: str) -> npt.NDArray[np.float32]:
        chunk = layout.chunks[index]
        source = found.get(chunk.unit)
        if source is None:
            return np.zeros(chunk.length, np.float32)
        return source.read(kind, chunk.start, chunk.length)

    return read


def initial_parameters(start: Start, layout: Layout) -> Read | None:
    """Return what reads the parameters that an attempt begins with; None for random ones.

    Raises SpecError, CheckpointError.
    """
    if not start.initial:
        return None
    critic = start.models.get(CRITIC)
    return initial_of(open_staged(Path(start.initial)), layout, open_staged(Path(critic)) if critic else None)


def _units(checkpoint: StagedCheckpoint) -> dict[str, _Source]:
    return {unit.name: _Source(checkpoint, unit) for unit in checkpoint.body.layout.units}


def _differs(staged: StagedCheckpoint, layout: Layout, critic: StagedCheckpoint | None, unit: str) -> SpecError:
    what = staged.body.name if critic is None else f"{staged.body.name} with the critic {critic.body.name}"
    return SpecError(
        f"{what} has another unit {unit} than the layout {layout.digest}; expected a checkpoint of the same model, and "
        "for a value model a critic of the same model with a scalar head"
    )
