"""The update function "adamw-chunk-v1": decoupled weight decay (Loshchilov and Hutter 2019), in place.

Only operations that are elementwise and exact in their tails (mul, add, lerp, addcmul, sqrt, div, addcdiv), in the
order of torch.optim.AdamW without foreach and fused. So cutting a chunk, or joining neighbours, changes no bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from tutti.model.chunks import Chunk
from tutti.model.spec import OptimizerSpec


@dataclass(frozen=True)
class Run:
    """Neighbouring elements of a rank's state that share a decay."""

    start: int
    stop: int
    decay: bool


def runs_of(chunks: tuple[Chunk, ...], most: int) -> tuple[Run, ...]:
    """The chunks of a rank as few long runs, of at most `most` elements."""
    return tuple(_runs(chunks, most))


def _runs(chunks: tuple[Chunk, ...], most: int) -> Iterator[Run]:
    start = end = 0
    for position, chunk in enumerate(chunks):
        end += chunk.length
        last = position + 1 == len(chunks)
        if last or chunks[position + 1].decay != chunk.decay:
            for at in range(start, end, most):
                yield Run(at, min(at + most, end), chunk.decay)
            start = end


def adamw(
    spec: OptimizerSpec,
    *,
    parameter: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    gradient: Tensor,
    rate: float,
    updates: int,
    decay: bool,
) -> None:
    """Apply one update to a slice. `updates` counts from 1 and does not count skipped steps."""
    if decay:
        parameter.mul_(1 - rate * spec.weight_decay)
    first_moment.lerp_(gradient, 1 - spec.beta1)
    second_moment.mul_(spec.beta2).addcmul_(gradient, gradient, value=1 - spec.beta2)
    denominator = second_moment.sqrt().div_((1 - spec.beta2**updates) ** 0.5).add_(spec.epsilon)
    parameter.addcdiv_(first_moment, denominator, value=-(rate / (1 - spec.beta1**updates)))
