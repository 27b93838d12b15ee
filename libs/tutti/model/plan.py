"""The assignment of leaves and chunks to ranks: a pure function of the layout, the shape and the number of leaves.

A shape changes where work happens and never a bit of the result. This is the seam where pipeline stages, tensor,
context and fully sharded parallelism join; today a shape is a number of data-parallel ranks. Does not import torch.
"""

import functools
from bisect import bisect_right
from dataclasses import dataclass

from tutti.model.chunks import Chunk, Kind, Layout
from tutti.model.spec import Recorded, SpecError
from tutti.model.tree import Node, canonical_nodes
from tutti.records.records import later

RULE = "contiguous-v1"
OPTIMIZER, PARAMETERS = "optimizer", "parameters"
BYTES = 4


class ShapeError(SpecError):
    """A shape that this model and number of leaves cannot have."""


@dataclass(frozen=True)
class Shape(Recorded):
    """Ranks along each axis, and the rule that gives chunks to owners. Hashed, compared, in every manifest.

    `shard` says what a rank keeps of its chunks alone: the state of the optimizer, or the parameters too.
    """

    dp: int
    tp: int = 1
    pp: int = 1
    cp: int = 1
    rule: str = RULE
    shard: str = later(OPTIMIZER, since="0.2.0")

    def __post_init__(self) -> None:
        self._check_types()
        for axis in ("dp", "tp", "pp", "cp"):
            if getattr(self, axis) < 1:
                raise ShapeError(f"Shape.{axis} is {getattr(self, axis)}; expected a positive number")
        if self.shard not in (OPTIMIZER, PARAMETERS):
            raise ShapeError(f"Shape.shard is {self.shard!r}; expected {OPTIMIZER} or {PARAMETERS}")

    @property
    def ranks(self) -> int:
        return self.dp * self.tp * self.pp * self.cp

    @property
    def shape_digest(self) -> str:
        return self.digest()


@dataclass(frozen=True)
class Span:
    """A stretch of a flat vector, in elements."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        return self.start + self.length


@dataclass(frozen=True)
class GradientSpan(Span):
    """A stretch of the gradient vector, and where in its owner's state it is added."""

    onto: int


@dataclass(frozen=True)
class SnapshotEntry:
    """The place of one tensor of one chunk in a rank's snapshot, in bytes (float32, little-endian)."""

    chunk: int
    kind: Kind
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Traffic:
    """Bytes that a rank sends to others in one step."""

    reduce: int
    vote: int
    gather: int


def even_range(part: int, parts: int, items: int) -> range:
    """The part-th of `parts` contiguous ranges over `items` items, whose sizes differ by at most one."""
    return range(part * items // parts, (part + 1) * items // parts)


class Plan:
    """Leaves, chunks, subtrees and snapshots of every rank of one shape."""

    def __init__(self, layout: Layout, shape: Shape, leaves: int) -> None:
        if shape.dp > leaves:
            raise ShapeError(f"dp is {shape.dp} with {leaves} leaves a step; expected dp ≤ leaves: use fewer ranks")
        if (shape.tp, shape.pp, shape.cp) != (1, 1, 1):
            raise ShapeError(f"shape is tp={shape.tp} pp={shape.pp} cp={shape.cp}; expected 1: only dp is built so far")
        if shape.rule != RULE:
            raise ShapeError(f"the chunk rule is {shape.rule!r}; expected {RULE!r}")
        self.layout, self.shape, self.leaves = layout, shape, leaves
        self.ranks = range(shape.ranks)
        self._first_chunks = [even_range(rank, shape.dp, len(layout.chunks)).start for rank in self.ranks]

    def leaves_of(self, rank: int) -> range:
        """The leaves whose gradients a rank computes: contiguous, as even as the number of leaves allows."""
        return even_range(rank, self.shape.dp, self.leaves)

    def evaluation_leaves_of(self, rank: int, leaves: int) -> range:
        """The same rule over any number of validation leaves, fewer than ranks included."""
        return even_range(rank, self.shape.dp, leaves)

    def nodes_of(self, rank: int) -> tuple[Node, ...]:
        """The canonical subtrees that a rank contributes to every chunk's sum."""
        return self._nodes[rank]

    @functools.cached_property
    def _nodes(self) -> list[tuple[Node, ...]]:
        return [canonical_nodes(self.leaves_of(rank), self.leaves) for rank in self.ranks]

    def owner(self, chunk: int) -> int:
        """The rank that keeps a chunk's parameters and moments and applies its update."""
        if not 0 <= chunk < len(self.layout.chunks):
            raise IndexError(f"chunk {chunk} of {len(self.layout.chunks)}")
        return bisect_right(self._first_chunks, chunk) - 1

    def chunks_of(self, rank: int) -> tuple[Chunk, ...]:
        """The chunks that a rank keeps, in the order of the model."""
        own = even_range(rank, self.shape.dp, len(self.layout.chunks))
        return self.layout.chunks[own.start : own.stop]

    def state_span(self, rank: int) -> Span:
        """The stretch of the state vector that a rank keeps."""
        own = self.chunks_of(rank)
        if not own:
            return Span(0, 0)
        return Span(self.layout.offsets[own[0].index], sum(chunk.length for chunk in own))

    def gradient_spans(self, rank: int) -> tuple[GradientSpan, ...]:
        """The stretches of the gradient vector that a rank keeps: its state's, then those of second uses of it."""
        own = self.state_span(rank)
        spans = [GradientSpan(own.start, own.length, onto=0)]
        for use in self.layout.uses:
            if use.gradient_start != use.state_start:
                start = max(own.start, use.state_start)
                stop = min(own.stop, use.state_start + use.unit.length)
                if start < stop:
                    at = use.gradient_start + start - use.state_start
                    spans.append(GradientSpan(at, stop - start, onto=start - own.start))
        return tuple(spans)

    def snapshot_table(self, rank: int) -> tuple[SnapshotEntry, ...]:
        """The parameters of a rank's chunks in order, then their first and their second moments.

        So they lie in the state too: a snapshot is one copy.
        """
        entries, end = [], 0
        for kind in Kind:
            for chunk in self.chunks_of(rank):
                entries.append(SnapshotEntry(chunk.index, kind, end, BYTES * chunk.length))
                end += BYTES * chunk.length
        return tuple(entries)

    def snapshot_size(self, rank: int) -> int:
        """Bytes of a rank's snapshot."""
        return len(Kind) * BYTES * self.state_span(rank).length

    def bytes_sent(self, rank: int) -> Traffic:
        """Bytes that a rank sends in a step, without audits. Counted from the contents of the exchanges."""
        others = [other for other in self.ranks if other != rank]
        kept_by_others = sum(span.length for other in others for span in self.gradient_spans(other))
        slots = 4 + 2 * len(self.leaves_of(rank)) + len(self.chunks_of(rank))
        return Traffic(
            reduce=BYTES * len(self.nodes_of(rank)) * kept_by_others,
            vote=8 * slots * len(others),
            gather=BYTES * self.state_span(rank).length * len(others),
        )
