"""The parameters that one rank computes with: a parallel plan applied to a model from outside.

A plan decides where parameters are, and never a bit of the result: every rank computes with the values of the owners.
`Replicated` gathers the whole vector once a step. `Sharded` keeps the rank's own chunks alone: it gathers a unit when
the model reads it, drops it when the model reads the next one, and gathers it again for its backward.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from tutti.model.blocks import Parameters
from tutti.model.chunks import Field, Layout, Use
from tutti.model.exchange import Exchange
from tutti.model.fingerprint import fingerprints
from tutti.model.plan import PARAMETERS, Plan, Span
from tutti.model.transformer import leaves_in

Take = Callable[[int, Tensor], None]
"""Takes the gradient of a field, by the position of the field in `gradient_slots`."""


class Placement(Protocol):
    """The parameters of one rank; `most_elements` is the highest number of them that it held at once."""

    most_elements: int
    collective: bool
    """True if computing a leaf is collective: all ranks then compute as many, one after the other."""

    @property
    def units(self) -> Sequence[Parameters]:
        """The parameters of each unit, in the order of `layout.uses`."""
        ...

    def take_gradients(self, take: Take) -> None:
        """Give each field's gradient to `take` as soon as autograd has made it."""
        ...

    def leaf(self) -> AbstractContextManager[None]:
        """The context of one forward and its backward."""
        ...

    def refresh(self, own: Tensor) -> None:
        """Collective. Compute with the owners' new values; `own` are those of this rank's chunks, float32."""
        ...

    def fingerprints(self) -> list[int]:
        """Collective. The fingerprint of each chunk that this rank computes with."""
        ...


def gradient_slots(layout: Layout) -> list[tuple[int, Field]]:
    """The start of each field of each use in the gradient vector, and the field."""
    return [(use.gradient_start + field.start, field) for use in layout.uses for field in use.unit.fields]


class Replicated:
    """Each rank has the whole vector, and gathers it after each step."""

    collective = False

    def __init__(self, plan: Plan, exchange: Exchange, *, device: torch.device, dtype: torch.dtype) -> None:
        layout, self._exchange = plan.layout, exchange
        self.vector = torch.zeros(layout.elements, dtype=dtype, device=device)
        self.most_elements = layout.elements
        self.units = leaves_in(layout, self.vector)
        self._lengths = [plan.state_span(rank).length for rank in plan.ranks]
        self._chunk_lengths = [chunk.length for chunk in layout.chunks]

    def take_gradients(self, take: Take) -> None:
        fields = [unit[name] for unit in self.units for name in unit]
        for position, field in enumerate(fields):
            field.register_post_accumulate_grad_hook(functools.partial(_taken, take, position))  # type: ignore[no-untyped-call]

    def leaf(self) -> AbstractContextManager[None]:
        return nullcontext()

    def refresh(self, own: Tensor) -> None:
        self._exchange.gather(own.to(self.vector.dtype), self._lengths, self.vector)

    def fingerprints(self) -> list[int]:
        return fingerprints(self.vector, self._chunk_lengths)


def _taken(take: Take, position: int, field: Tensor) -> None:
    gradient, field.grad = field.grad, None
    assert gradient is not None
    take(position, gradient)


class Sharded:
    """Each rank has its own chunks, and one unit of the model at a time."""

    collective = True

    def __init__(self, plan: Plan, exchange: Exchange, *, rank: int, device: torch.device, dtype: torch.dtype) -> None:
        self._layout, self._exchange, self._device, self._dtype = plan.layout, exchange, device, dtype
        self._spans = [plan.state_span(each) for each in plan.ranks]
        self._start = self._spans[rank].start
        self._own = torch.zeros(self._spans[rank].length, dtype=dtype, device=device)
        self._anchor = torch.zeros((), device=device, requires_grad=True)
        self._take: Take | None = None
        self._present: tuple[int, Tensor] | None = None
        self.most_elements = 0
        first, units = 0, list[Parameters]()
        for index, use in enumerate(plan.layout.uses):
            units.append(_LentUnit(self, index, use, first))
            first += len(use.unit.fields)
        self.units = units

    def take_gradients(self, take: Take) -> None:
        self._take = take

    @contextmanager
    def leaf(self) -> Iterator[None]:
        """Let autograd save the places of parameters instead of their values; the backward gathers them again."""
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
                yield
        finally:
            self._present = None

    def refresh(self, own: Tensor) -> None:
        self._own, self._present = own.to(self._dtype), None

    def fingerprints(self) -> list[int]:
        found = []
        for use in self._layout.uses:
            if use.unit.owner == use.unit.name:
                lengths = [chunk.length for chunk in self._layout.chunks if chunk.unit == use.unit.name]
                found += fingerprints(self._gathered(Span(use.state_start, use.unit.length)), lengths)
        return found

    def lend(self, index: int, use: Use, field: Field, position: int) -> Tensor:
        """Return a field for one use of it in the model; its gradient goes to where gradients are taken."""
        part = self._unit(index, use)[field.start : field.start + field.length].view(field.shape)
        if not torch.is_grad_enabled() or self._take is None:
            return part
        lent: Tensor = _Lent.apply(self._anchor, part, self._take, position)
        return lent

    def _unit(self, index: int, use: Use) -> Tensor:
        """The vector of a unit; the one before it is dropped first."""
        if self._present is None or self._present[0] != index:
            self._present = None
            self._present = index, self._gathered(Span(use.state_start, use.unit.length))
        return self._present[1]

    def _gathered(self, span: Span) -> Tensor:
        """Collective. A stretch of the state's parameters, from those who keep it."""
        parts = [
            Span(start := max(span.start, of.start), max(0, min(span.stop, of.stop) - start)) for of in self._spans
        ]
        mine = parts[self._exchange.rank]
        begin = mine.start - self._start if mine.length else 0
        whole = torch.empty(span.length, dtype=self._dtype, device=self._device)
        self._exchange.gather(self._own[begin : begin + mine.length], [part.length for part in parts], whole)
        self.most_elements = max(self.most_elements, self._own.numel() + span.length)
        return whole

    def _pack(self, saved: Tensor) -> "Tensor | _Place":
        if self._present is None or saved.untyped_storage().data_ptr() != self._present[1].untyped_storage().data_ptr():
            return saved
        return _Place(self._present[0], saved.size(), saved.stride(), int(saved.storage_offset()))

    def _unpack(self, packed: "Tensor | _Place") -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        unit = self._unit(packed.index, self._layout.uses[packed.index])
        return unit.as_strided(packed.size, packed.stride, packed.offset)


@dataclass(frozen=True)
class _Place:
    """A tensor that autograd saved, as a view of the vector of a unit."""

    index: int
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


class _LentUnit(Mapping[str, Tensor]):
    """The fields of one unit, each gathered when it is read."""

    def __init__(self, placement: Sharded, index: int, use: Use, first: int) -> None:
        self._placement, self._index, self._use = placement, index, use
        self._positions = {field.name: (field, first + at) for at, field in enumerate(use.unit.fields)}

    def __getitem__(self, name: str) -> Tensor:
        field, position = self._positions[name]
        return self._placement.lend(self._index, self._use, field, position)

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)


class _Lent(torch.autograd.Function):
    """A parameter that is no leaf of autograd: its values can be dropped between forward and backward."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, part: Tensor, take: Take, position: int) -> Tensor:
        ctx.take, ctx.position = take, position
        return part.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        ctx.take(ctx.position, gradients[0])
        return None, None, None, None


def placement(plan: Plan, exchange: Exchange, *, rank: int, device: torch.device, dtype: torch.dtype) -> Placement:
    """Return the placement that the plan's shape names."""
    if plan.shape.shard == PARAMETERS:
        return Sharded(plan, exchange, rank=rank, device=device, dtype=dtype)
    return Replicated(plan, exchange, device=device, dtype=dtype)
