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
from tutti.model.training import RESERVED_1, Conversion

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


@dataclass(frozen=True)
class _Converted:
    """An embedding or output matrix of a checkpoint with the rows of a larger vocabulary."""

    source: _Source
    unit: Unit
    conversion: Conversion

    def read(self, kind: str, start: int, length: int) -> npt.NDArray[np.float32]:
        """The elements from `start` on of the unit's flat vector."""
        (field,), values = self.unit.fields, np.zeros(self.unit.length, np.float32)
        values[field.start : field.start + field.length] = self._rows(kind).ravel()
        return values[start : start + length]

    def _rows(self, kind: str) -> npt.NDArray[np.float32]:
        """Rows of text as they are, the added ones as the mean of the tokenizer's, then the rest, moved up."""
        (old,), (new,) = self.source.unit.fields, self.unit.fields
        before = self.source.read(kind, old.start, old.length).reshape(old.shape)
        end = self.conversion.vocabulary - (self.conversion.rule == RESERVED_1)
        mean = before[: self.conversion.vocabulary].mean(0, dtype=np.float64).astype(np.float32)
        found = np.empty(new.shape, np.float32)
        found[:end], found[end:] = before[:end], mean
        # Rows of no token are given to the tokens that are appended, while the last id of ours moves up with its row.
        moved = self.conversion.added if self.conversion.rule == RESERVED_1 else 0
        rest = before[end + self.conversion.added - moved : len(found) - moved]
        found[end + self.conversion.added :][: len(rest)] = rest
        return found


def initial_of(
    staged: StagedCheckpoint,
    layout: Layout,
    critic: StagedCheckpoint | None = None,
    conversion: Conversion | None = None,
) -> Read:
    """Return what reads the tensors of a layout's chunks out of a checkpoint of the same model.

    A scalar head that the checkpoint does not have is zero; a scalar head or a value model that the layout does not
    have is left out. A value model begins with the `critic`, a reward model. With a `conversion`, the matrices over the
    vocabulary have rows for the tokens that are added. Raises SpecError where units differ.
    """
    if staged.body.layout.digest == layout.digest and critic is None and conversion is None:
        return staged.read
    sources = _units(staged)
    if critic is not None:
        sources |= {f"{VALUE}{name}": source for name, source in _units(critic).items()}
    found: dict[str, _Source | _Converted] = {}
    for unit in layout.units:
        source = sources.get(unit.name)
        if source is not None and conversion is not None and _extends(source.unit, unit, conversion):
            found[unit.name] = _Converted(source, unit, conversion)
        elif source is not None and (source.unit.fields, source.unit.length) == (unit.fields, unit.length):
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


def _extends(old: Unit, new: Unit, conversion: Conversion) -> bool:
    """True if both have one matrix of the same columns, with rows for all ids before and after."""
    if (len(old.fields), len(new.fields)) != (1, 1):
        return False
    before, after = old.fields[0].shape, new.fields[0].shape
    return (
        len(before) == len(after) == 2
        and before[1] == after[1]
        and (conversion.vocabulary <= before[0] <= after[0] and conversion.vocabulary + conversion.added <= after[0])
    )


def initial_parameters(start: Start, layout: Layout, conversion: Conversion | None = None) -> Read | None:
    """Return what reads the parameters that an attempt begins with; None for random ones.

    Raises SpecError, CheckpointError.
    """
    if not start.initial:
        return None
    critic = start.models.get(CRITIC)
    opened = open_staged(Path(critic)) if critic else None
    return initial_of(open_staged(Path(start.initial)), layout, opened, conversion)


def _units(checkpoint: StagedCheckpoint) -> dict[str, _Source]:
    return {unit.name: _Source(checkpoint, unit) for unit in checkpoint.body.layout.units}


def _differs(staged: StagedCheckpoint, layout: Layout, critic: StagedCheckpoint | None, unit: str) -> SpecError:
    what = staged.body.name if critic is None else f"{staged.body.name} with the critic {critic.body.name}"
    return SpecError(
        f"{what} has another unit {unit} than the layout {layout.digest}; expected a checkpoint of the same model, and "
        "for a value model a critic of the same model with a scalar head"
    )
