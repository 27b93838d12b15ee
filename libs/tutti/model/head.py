"""The output matrix and the cross-entropy as one operation that never holds all logits.

Logits of vocabulary size are most of a small model's memory, and fresh memory is slow to touch: here they live in one
buffer of a few rows that is made once, and their gradient is taken in place, while they are in the cache. The output
matrix's gradient is added up over those rows in float32, whatever the type of the matrix, and rounded to it once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tutti.model.device import add_product, logits_at_once

Weigh = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From the log-probabilities of a leaf's next tokens, float32[tokens], its losses and the derivatives of their sum by
each log-probability, the same shape each."""


SUM = torch.float32


def sum_type(matrix: torch.dtype) -> str:
    """The type that an output matrix's gradient is added up in, for the kernel signature; empty for its own type."""
    return "" if matrix == SUM else str(SUM).removeprefix("torch.")


class Head:
    """Sums of token losses, for one vocabulary. Its buffer is kept."""

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self.rows = max(16, logits_at_once(device) // vocabulary)
        self._logits = torch.empty(self.rows, vocabulary, device=device)

    def losses(self, hidden: Tensor, weight: Tensor, targets: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """(something to call backward() on, the token losses in nats float32[tokens]).

        hidden [tokens, width], weight [vocabulary, width], targets int64[tokens], valid bool[tokens]: losses that are
        not valid are 0. The first result stands for the sum of all losses; its value is not that sum.
        """
        result: tuple[Tensor, Tensor] = _SummedCrossEntropy.apply(hidden, weight, targets, valid, self)
        return result

    def weighted_losses(self, hidden: Tensor, weight: Tensor, targets: Tensor, weigh: Weigh) -> tuple[Tensor, Tensor]:
        """(something to call backward() on, the losses that `weigh` gives float32[tokens]).

        hidden [tokens, width], weight [vocabulary, width], targets int64[tokens]. The gradient of a token's logits is
        its coefficient times (onehot - softmax). `weigh` needs all log-probabilities first, so
        logits that do not fit into the buffer together are computed twice, to the same bits.
        """
        result: tuple[Tensor, Tensor] = _Weighted.apply(hidden, weight, targets, weigh, self)
        return result

    def slice_of(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """The logits of a few rows, float32, in the buffer."""
        buffer = self._logits[: len(hidden)]
        if hidden.dtype == buffer.dtype:
            return torch.mm(hidden, weight.t(), out=buffer)
        return buffer.copy_(torch.mm(hidden, weight.t()))


class _TakenInForward(torch.autograd.Function):
    """An operation whose forward has saved its gradients."""

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        to_hidden, to_weight = ctx.saved_tensors
        return to_hidden, to_weight, None, None, None


class _SummedCrossEntropy(_TakenInForward):
    """The gradient of the sum of losses is known as soon as the losses are, so it is taken in the forward."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, valid: Tensor, head: Head
    ) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[0]
        losses = torch.empty(len(hidden), device=hidden.device)
        counts = valid.to(losses.dtype)
        to_hidden = torch.empty_like(hidden) if wanted else None
        to_weight = torch.zeros_like(weight, dtype=SUM) if wanted else None
        for start in range(0, len(hidden), head.rows):
            rows = slice(start, start + head.rows)
            x, target, count = hidden[rows], targets[rows, None], counts[rows, None]
            logits = head.slice_of(x, weight)
            logits.sub_(logits.amax(-1, keepdim=True))
            chosen = logits.gather(-1, target)
            total = logits.exp_().sum(-1, keepdim=True)
            losses[rows] = ((total.log() - chosen) * count)[:, 0]
            if to_hidden is not None and to_weight is not None:
                gradient = logits.mul_(count / total).scatter_add_(-1, target, -count).to(x.dtype)
                torch.mm(gradient, weight, out=to_hidden[rows])
                add_product(to_weight, gradient.t(), x)
        ctx.save_for_backward(to_hidden, None if to_weight is None else to_weight.to(weight.dtype))
        ctx.mark_non_differentiable(losses)
        return losses.new_zeros(()), losses


class _Weighted(_TakenInForward):
    """The coefficients follow from the log-probabilities alone, so the gradient is taken in the forward here too."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weigh: Weigh, head: Head
    ) -> tuple[Tensor, Tensor]:
        slices = [slice(start, start + head.rows) for start in range(0, len(hidden), head.rows)]
        chances = torch.empty(len(hidden), device=hidden.device)
        for rows in slices:
            logits = head.slice_of(hidden[rows], weight)
            logits.sub_(logits.amax(-1, keepdim=True))
            chosen = logits.gather(-1, targets[rows, None])[:, 0]
            chances[rows] = chosen - logits.exp_().sum(-1).log()
        losses, coefficients = weigh(chances)
        if ctx.needs_input_grad[0]:
            to_hidden, to_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=SUM)
            for rows in slices:
                x, target, coefficient = hidden[rows], targets[rows, None], coefficients[rows, None]
                if len(slices) > 1:
                    logits = head.slice_of(x, weight)
                    logits.sub_(logits.amax(-1, keepdim=True)).exp_()
                total = logits.sum(-1, keepdim=True)
                gradient = logits.mul_(-coefficient / total).scatter_add_(-1, target, coefficient).to(x.dtype)
                torch.mm(gradient, weight, out=to_hidden[rows])
                add_product(to_weight, gradient.t(), x)
            ctx.save_for_backward(to_hidden, to_weight.to(weight.dtype))
        ctx.mark_non_differentiable(losses)
        return losses.new_zeros(()), losses
