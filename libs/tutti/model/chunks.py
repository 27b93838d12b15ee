"""The layout of a model's state: units, their fields, and the fixed chunks they are cut into.

It follows from the model alone, never from ranks or stages: a chunk is a slice of one unit's flat vector within one
decay group, so units can be spread over pipeline stages without changing a digest. Everything is a multiple of 64
elements. A tied output is a second *use* of the embedding's state, with a gradient of its own. Does not import torch.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tutti.model.spec import ModelSpec, SpecError, digest_of

ALIGN = 64
SMALLEST_CHUNK = 16_384
LARGEST_CHUNK = 4 * 1024 * 1024
WANTED_CHUNKS = 1_024
VERSION = "chunks-v1"


class Kind(Enum):
    """The three tensors of a chunk, in the order in which they are stored."""

    PARAMETER = "parameter"
    FIRST_MOMENT = "first_moment"
    SECOND_MOMENT = "second_moment"


KINDS = tuple(kind.value for kind in Kind)


@dataclass(frozen=True)
class Field:
    """A named tensor of a unit. Its elements lie at start … start + length of the unit's flat vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    decay: bool
    std: float | None
    """Initial standard deviation, 0 for zeros; None starts at one (gains of norms)."""

    @property
    def length(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Unit:
    """A part of the model that computes as one: embed, block.i, norm, output, and scalar where it has that head.

    Those of a value model are value.embed, value.block.i, value.norm, value.scalar.
    """

    name: str
    owner: str
    """The unit whose state it uses: itself, or embed for a tied output."""
    fields: tuple[Field, ...]
    length: int


@dataclass(frozen=True)
class Chunk:
    """A slice of one unit's flat vector, of one decay group: what is summed, updated, kept, digested, stored."""

    index: int
    unit: str
    start: int
    length: int
    decay: bool
    name: str


@dataclass(frozen=True)
class Use:
    """The positions of a unit: of its gradient in the gradient vector, and of its state in the state vector."""

    unit: Unit
    gradient_start: int
    state_start: int


def _aligned(length: int) -> int:
    return -(-length // ALIGN) * ALIGN


def chunk_size_for(elements: int) -> int:
    """A power of two in 16,384 … 4 Mi such that a large model has at least 1,024 chunks."""
    wanted = max(elements // WANTED_CHUNKS, 1)
    return max(SMALLEST_CHUNK, min(LARGEST_CHUNK, 1 << (wanted.bit_length() - 1)))


VALUE = "value."
"""The prefix of the units of a value model."""


def _unit(name: str, shapes: Mapping[str, tuple[tuple[int, ...], float | None]], owner: str | None = None) -> Unit:
    fields, end = [], 0
    for decay in (True, False):
        for field, (shape, std) in shapes.items():
            if (len(shape) > 1) == decay:
                fields.append(Field(name=field, shape=shape, start=end, decay=decay, std=std))
                end += _aligned(math.prod(shape))
    return Unit(name=name, owner=owner or name, fields=tuple(fields), length=end)


def units_of(model: ModelSpec) -> tuple[Unit, ...]:
    """The units in the order of computation. Query, key and value are rows of one matrix, as are gate and up."""
    width, std = model.width, model.init_std
    residual = std / math.sqrt(2 * model.layers) if model.scaled_init else std
    block: dict[str, tuple[tuple[int, ...], float | None]] = {
        "query_key_value": (((model.heads + 2 * model.kv_heads) * model.head_width, width), std),
        "attention_output": ((width, model.attention_width), residual),
        "gate_up": ((2 * model.hidden, width), std),
        "down": ((width, model.hidden), residual),
        "attention_norm": ((width,), None),
        "hidden_norm": ((width,), None),
    }
    if model.qkv_bias:
        block |= {"query_key_value_bias": (((model.heads + 2 * model.kv_heads) * model.head_width,), 0.0)}
    if model.qk_norm:
        block |= {"query_norm": ((model.head_width,), None), "key_norm": ((model.head_width,), None)}

    def states(prefix: str) -> tuple[Unit, ...]:
        return (
            _unit(f"{prefix}embed", {"weight": ((model.vocabulary, width), std)}),
            *(_unit(f"{prefix}block.{i}", block) for i in range(model.layers)),
            _unit(f"{prefix}norm", {"weight": ((width,), None)}),
        )

    def scalar(prefix: str) -> Unit:
        return _unit(f"{prefix}scalar", {"weight": ((1, width), 0.0)})

    # What gives no logits is last, so that the units before it have the places that they have without it. A scalar
    # head starts at zero.
    return (
        *states(""),
        _unit("output", {"weight": ((model.vocabulary, width), std)}, owner="embed" if model.tied else None),
        *((scalar(""),) if model.scalar_head else ()),
        *((*states(VALUE), scalar(VALUE)) if model.value_model else ()),
    )


class Layout:
    """Units, uses and ordered chunks of a model. The *state vector* is the concatenation of all chunks."""

    def __init__(self, model: ModelSpec, chunk_size: int | None = None) -> None:
        """`chunk_size` is read from a record; for a new model it is chosen from the model's size."""
        self.model = model
        self.units = units_of(model)
        owners = [unit for unit in self.units if unit.owner == unit.name]
        self.elements = sum(unit.length for unit in owners)
        """Length of the state vector, in which each field begins at a multiple of ALIGN."""
        self.parameters = sum(math.prod(field.shape) for unit in owners for field in unit.fields)
        self.chunk_size = chunk_size_for(self.elements) if chunk_size is None else chunk_size
        if self.chunk_size < ALIGN or self.chunk_size & (self.chunk_size - 1):
            raise SpecError(f"chunk_size is {self.chunk_size}; expected a power of two of at least {ALIGN}")
        bases: dict[str, int] = {}
        chunks: list[Chunk] = []
        end = 0
        for unit in owners:
            bases[unit.name] = end
            end += unit.length
            chunks += self._cut(unit, first=len(chunks))
        self.chunks = tuple(chunks)
        self.offsets = tuple(bases[chunk.unit] + chunk.start for chunk in chunks)
        """The start of each chunk in the state vector."""
        uses, end = [], self.elements
        for unit in self.units:
            owned = unit.owner == unit.name
            uses.append(Use(unit, gradient_start=bases[unit.name] if owned else end, state_start=bases[unit.owner]))
            end += 0 if owned else unit.length
        self.uses = tuple(uses)
        self.decoder = self.uses[: model.layers + 3]
        """The uses from embed to output, which give the logits: all but a scalar head and a value model."""
        self.gradient_elements = end
        """Length of the gradient vector: the state vector, then the gradients of second uses."""

    def _cut(self, unit: Unit, first: int) -> list[Chunk]:
        chunks: list[Chunk] = []
        for decay, label in ((True, "matrices"), (False, "gains")):
            group = [field for field in unit.fields if field.decay == decay]
            if not group:
                continue
            start, end = group[0].start, group[-1].start + _aligned(group[-1].length)
            for n, at in enumerate(range(start, end, self.chunk_size)):
                length = min(self.chunk_size, end - at)
                name = f"{unit.name}.{label}.{n}"
                chunks.append(Chunk(first + len(chunks), unit.name, at, length, decay, name))
        return chunks

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, "model": self.model.to_dict(), "chunk_size": self.chunk_size}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Layout":
        if set(value) != {"version", "model", "chunk_size"} or value["version"] != VERSION:
            raise SpecError(f"a layout record is {sorted(value)}; expected version {VERSION}, model, chunk_size")
        return cls(ModelSpec.from_dict(value["model"]), chunk_size=value["chunk_size"])

    @functools.cached_property
    def digest(self) -> str:
        """Names every field and chunk, so that two builds that cut differently cannot be taken for each other."""
        return digest_of(
            {
                "version": VERSION,
                "units": [
                    [unit.name, unit.owner, [[f.name, list(f.shape), f.start, f.decay] for f in unit.fields]]
                    for unit in self.units
                ],
                "chunks": [[c.index, c.unit, c.start, c.length, c.decay] for c in self.chunks],
            }
        )
