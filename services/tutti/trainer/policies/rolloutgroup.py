"""The rollout group of a job: the processes that answer its prompts, and how all ranks learn the answers.

Promises: an answer follows from the weights, its prompt and its number, so every group gives the same bits. Either the
ranks that train answer too, or ranks of their own do: workers, which get the weights by digest at each change.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tutti.checkpoints.digests import vector_digest
from tutti.inference.engine import Weights
from tutti.model.chunks import Layout
from tutti.model.device import compute_type
from tutti.model.exchange import Exchange
from tutti.model.step import RankStep
from tutti.trainer.failures import RankFailure, Reason

Numbers = npt.NDArray[Any]
PREFIX = "blake3:"
WORDS = 5
"""Numbers of an order: the iteration, and the digest of the weights that answer."""


class RolloutGroup(Protocol):
    """The processes that answer. All methods are collective over all ranks of the job."""

    @property
    def size(self) -> int:
        """Return how many processes answer."""
        ...

    @property
    def place(self) -> int | None:
        """Return which of them this one is; None where it does not answer."""
        ...

    def give(self, iteration: int, weights: Weights) -> None:
        """Hand the weights of an iteration to those that answer."""
        ...

    def share(self, values: Numbers, lengths: Sequence[int]) -> list[Numbers]:
        """Return the vectors of those that answer, on every rank; `lengths` are those of all of them."""
        ...


class Colocated:
    """The ranks that train answer, with the parameters that they have."""

    def __init__(self, step: RankStep) -> None:
        self._step, self.size, self.place = step, len(step.plan.ranks), step.rank

    def give(self, iteration: int, weights: Weights) -> None:
        """Nothing: each rank has them."""

    def share(self, values: Numbers, lengths: Sequence[int]) -> list[Numbers]:
        return self._step.share(values, lengths)


class Split:
    """Ranks behind those that train answer; rank 0 hands them the weights whenever the digest changes."""

    def __init__(self, world: Exchange, layout: Layout, *, actors: int, device: str) -> None:
        """`world` is of all ranks, of which the first `actors` train; this one computes on `device`."""
        self._world, self._layout, self._actors, self._device = world, layout, actors, torch.device(device)
        self.size = world.ranks - actors
        self.place = world.rank - actors if world.rank >= actors else None
        elements = layout.elements if self.place is not None else 0
        self._held, self._vector = "", torch.zeros(elements, dtype=compute_type(self._device), device=self._device)

    def give(self, iteration: int, weights: Weights) -> None:
        words = np.frombuffer(bytes.fromhex(weights.digest.removeprefix(PREFIX)), np.int64)
        self._ordered(np.array([iteration, *words]))
        if weights.digest != self._held:
            self._handed(weights.vector.float())
            self._held = weights.digest

    def take(self, iteration: int) -> Weights:
        """Collective, for those that answer. Wait for the weights of an iteration, always in the same tensor.

        Raises RankFailure for another iteration, or weights that are not those of their digest.
        """
        told, *words = self._ordered(np.zeros(WORDS, np.int64)).tolist()
        if told != iteration:
            raise RankFailure(
                Reason.STATE_REFUSED, f"the actors are in iteration {told}; expected {iteration}, as in the checkpoint"
            )
        digest = PREFIX + np.array(words, np.int64).tobytes().hex()
        if digest != self._held:
            self._vector.copy_(self._handed(self._on_device(np.zeros(0, np.float32))))
            seen = vector_digest(self._layout, self._vector.float().cpu().numpy())
            if seen != digest:
                raise RankFailure(
                    Reason.STATE_REFUSED, f"the weights of iteration {iteration} are {seen}; told: {digest}"
                )
            self._held = digest
        return Weights(digest, self._vector)

    def share(self, values: Numbers, lengths: Sequence[int]) -> list[Numbers]:
        own = values if self.place is not None else values[:0]
        every = [0] * self._actors + list(lengths)
        shared = self._world.share(self._on_device(own), every)
        return [part.cpu().numpy() for part in shared[self._actors :]]

    def _ordered(self, words: Numbers) -> Numbers:
        """The order of rank 0."""
        own = self._on_device(words if self._world.rank == 0 else words[:0])
        return np.asarray(self._world.share(own, [WORDS] + [0] * (self._world.ranks - 1))[0].cpu().numpy())

    def _handed(self, vector: Tensor) -> Tensor:
        """The weights of rank 0, where this one answers."""
        nothing = vector[:0]
        first = self._world.rank == 0
        outgoing = [vector if first and rank >= self._actors else nothing for rank in range(self._world.ranks)]
        incoming = [0] * self._world.ranks
        if self.place is not None:
            incoming[0] = self._layout.elements
        return self._world.scatter(outgoing, incoming)[0]

    def _on_device(self, values: Numbers) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)
