"""The gradient sums of one rank: leaf after leaf, taken alone and added in the tree.

A field's gradient goes into the flat sum the moment autograd has made it, and is freed. A leaf whose left sibling waits
in a buffer is added right onto it: left + right, the same bits with one buffer less. Nothing is added to zeros.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from tutti.model.batch import CheckedBatch
from tutti.model.chunks import Layout
from tutti.model.fingerprint import as_bytes, fingerprint
from tutti.model.objective import Objective
from tutti.model.parameters import Placement, gradient_slots
from tutti.model.transformer import Transformer
from tutti.model.tree import PIECE, Node, PartialSums, tree_sum
from tutti.model.vote import Tally

PIECES = 256
"""Whole pieces whose squares are in memory at a time."""

Score = Callable[[Transformer, CheckedBatch], Iterable[float]]
"""Numbers of a batch, as many for each; without a gradient."""


@dataclass(frozen=True)
class Buffer:
    """One flat float32 gradient vector, and a view of it a field."""

    vector: Tensor
    views: tuple[Tensor, ...]


class Gradients:
    """Computes leaves of one model, with a pool of buffers that is kept between steps."""

    def __init__(self, layout: Layout, transformer: Transformer, objective: Objective, placement: Placement) -> None:
        """`transformer` reads its parameters from `placement`."""
        self._layout, self._transformer, self._objective, self._placement = layout, transformer, objective, placement
        self._slots, self._device = gradient_slots(layout), transformer.device
        self._free: list[Buffer] = []
        self._target: Buffer | None = None
        self._onto = False
        self._taken: set[int] = set()
        self._dropped = False
        self.buffers = 0
        """The maximum number of gradient vectors that existed at the same time."""
        placement.take_gradients(self._take)

    def new_sums(self, leaves: int) -> PartialSums[Buffer]:
        """An empty tree whose additions reuse the left buffer and free the right one."""
        return PartialSums(leaves, self._combine)

    def add_leaf(self, sums: PartialSums[Buffer], leaf: int, batch: CheckedBatch) -> Tally:
        """Forward and backward of one leaf, added to the sums."""
        left = sums.take_left_sibling(leaf)
        if left is not None:
            tally = self._backward(batch, left, onto=True)
            sums.add(Node(1, leaf >> 1), left)
            return tally
        buffer = self._new_buffer()
        tally = self._backward(batch, buffer, onto=False)
        sums.add(Node(0, leaf), buffer)
        return tally

    def fingerprint_leaf(self, batch: CheckedBatch) -> int:
        """The fingerprint of one leaf's gradient, alone."""
        buffer = self._new_buffer()
        self._backward(batch, buffer, onto=False)
        found = fingerprint(as_bytes(buffer.vector))
        self._free.append(buffer)
        return found

    def examine_leaf(self, batch: CheckedBatch) -> tuple[Tally, int, bool]:
        """One leaf, alone: its tally, the fingerprint of loss and gradient, and whether both are finite."""
        buffer = self._new_buffer()
        tally = self._backward(batch, buffer, onto=False)
        found = fingerprint(as_bytes(buffer.vector)) ^ fingerprint(np.array([tally.loss]).view(np.uint8))
        finite = bool(buffer.vector.isfinite().all()) and math.isfinite(tally.loss)
        self._free.append(buffer)
        return tally, found, finite

    def add_fingerprinted_leaf(self, sums: PartialSums[Buffer], leaf: int, batch: CheckedBatch) -> tuple[Tally, int]:
        """As add_leaf, and the fingerprint of the leaf's gradient before it is added."""
        buffer = self._new_buffer()
        tally = self._backward(batch, buffer, onto=False)
        found = fingerprint(as_bytes(buffer.vector))
        sums.add(Node(0, leaf), buffer)
        return tally, found

    def idle(self, batch: CheckedBatch) -> None:
        """Forward and backward of a leaf whose gradient nobody wants: to be there when other ranks compute one."""
        self._dropped = True
        try:
            with self._placement.leaf():
                self._losses(batch)[0].backward()  # type: ignore[no-untyped-call]
        finally:
            self._dropped = False

    def release(self, sums: PartialSums[Buffer]) -> None:
        """Give the buffers of finished sums back to the pool."""
        self._free.extend(sums.nodes.values())
        sums.nodes.clear()

    @torch.no_grad()
    def token_sum(self, batch: CheckedBatch) -> Tally:
        """A forward alone: the sum of a batch's losses."""
        return self._tally(self._losses(batch)[1], batch)

    @torch.no_grad()
    def scored(self, batch: CheckedBatch, score: Score) -> list[float]:
        """A forward alone: the numbers that `score` gives a batch."""
        return [float(each) for each in score(self._transformer, batch)]

    def _losses(self, batch: CheckedBatch) -> tuple[Tensor, Tensor]:
        tokens, documents, valid = (
            torch.from_numpy(array).to(self._device) for array in (batch.tokens, batch.documents, batch.valid)
        )
        return self._objective.losses(self._transformer, tokens, documents, valid, batch)

    def _backward(self, batch: CheckedBatch, target: Buffer, *, onto: bool) -> Tally:
        self._target, self._onto = target, onto
        self._taken.clear()
        with self._placement.leaf():
            total, losses = self._losses(batch)
            total.backward()  # type: ignore[no-untyped-call]
        if not onto:  # the buffer may hold an earlier leaf: what this objective does not use has a gradient of zero
            for position in set(range(len(target.views))) - self._taken:
                target.views[position].zero_()
        return self._tally(losses, batch)

    def _tally(self, losses: Tensor, batch: CheckedBatch) -> Tally:
        return Tally(loss=piecewise_sum(losses), count=self._objective.count(batch))

    def _take(self, position: int, gradient: Tensor) -> None:
        if self._dropped:
            return
        if self._target is None or position in self._taken:
            raise RuntimeError(f"a second gradient of field {position} in a leaf, or one outside of a leaf")
        self._taken.add(position)
        view = self._target.views[position]
        if self._onto:
            view.add_(gradient)
        else:
            view.copy_(gradient)

    def _combine(self, left: Buffer, right: Buffer) -> Buffer:
        left.vector.add_(right.vector)
        self._free.append(right)
        return left

    def _new_buffer(self) -> Buffer:
        if self._free:
            return self._free.pop()
        self.buffers += 1
        vector = torch.zeros(self._layout.gradient_elements, device=self._device)
        return Buffer(vector, tuple(vector[at : at + prod(f.shape)].view(f.shape) for at, f in self._slots))


def piecewise_sum(vector: Tensor) -> float:
    """The sum of a float32 vector: each piece by one kernel, the pieces in tree order."""
    pieces = torch.stack([piece.sum() for piece in torch.split(vector, PIECE)])
    return tree_sum(pieces.cpu().double().numpy())


def squared_norms(vector: Tensor, lengths: list[int]) -> list[float]:
    """The squared norm of each consecutive slice of a flat vector, summed as piecewise_sum does."""
    sums = list[Tensor]()
    start = stop = 0
    for length in lengths:
        stop += length
        if rest := length % PIECE:
            sums += [*_whole(vector[start : stop - rest]), vector[stop - rest : stop].square().sum(0, keepdim=True)]
            start = stop
    sums += _whole(vector[start:stop])
    values = torch.cat(sums).cpu().double().numpy() if sums else np.empty(0)
    found, start = [], 0
    for length in lengths:
        count = -(-length // PIECE)
        found.append(tree_sum(values[start : start + count]))
        start += count
    return found


def _whole(vector: Tensor) -> list[Tensor]:
    """The squared norms of the whole pieces of a vector, many by one kernel."""
    return [part.view(-1, PIECE).square().sum(1) for part in torch.split(vector, PIECES * PIECE)] if len(vector) else []
