"""Objectives: a coefficient for each log-probability carries what cross-entropy, preferences and policies need."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tutti.model.head import Head

WIDTH, VOCABULARY, ROWS, LENGTH = 24, 50_000, 4, 9
"""So large a vocabulary that the logits of all positions are cut into several slices."""


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(3)
    hidden = torch.randn(ROWS * LENGTH, WIDTH, generator=source, requires_grad=True)
    weight = (0.1 * torch.randn(VOCABULARY, WIDTH, generator=source)).requires_grad_()
    targets = torch.randint(0, VOCABULARY, (ROWS * LENGTH,), generator=source)
    valid = torch.rand(ROWS * LENGTH, generator=source) < 0.8
    return hidden, weight, targets, valid


def by_autograd(loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Loss and gradients where all logits are held at once."""
    hidden, weight, targets, _ = inputs()
    chances = F.log_softmax(hidden @ weight.t(), -1).gather(-1, targets[:, None])[:, 0]
    total = loss(chances)
    total.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert weight.grad is not None
    return total.detach(), hidden.grad, weight.grad


def by_coefficients(weigh: Callable[[Tensor], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    hidden, weight, targets, _ = inputs()
    handle, losses = Head(VOCABULARY, torch.device("cpu")).weighted_losses(hidden, weight, targets, weigh)
    handle.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert weight.grad is not None
    return losses.sum(), hidden.grad, weight.grad


def same(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_cross_entropy_is_the_coefficient_minus_one() -> None:
    _, _, _, valid = inputs()
    mask = valid.float()
    weighted = by_coefficients(lambda chances: (-chances * mask, -mask))
    same(weighted, by_autograd(lambda chances: -(chances * mask).sum()))
    hidden, weight, targets, _ = inputs()
    handle, losses = Head(VOCABULARY, torch.device("cpu")).losses(hidden, weight, targets, valid)
    handle.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert weight.grad is not None
    same(weighted, (losses.sum(), hidden.grad, weight.grad))


def test_a_preference_between_rows_is_a_coefficient_a_row() -> None:
    """Direct preference optimisation (Rafailov et al. 2023, eq. 7): row 2i is preferred to row 2i + 1."""
    beta, reference = 0.1, torch.full((ROWS * LENGTH,), -10.0)

    def margins(chances: Tensor) -> Tensor:
        sums = (chances - reference).view(ROWS, LENGTH).sum(1)
        return beta * (sums[0::2] - sums[1::2])

    def weigh(chances: Tensor) -> tuple[Tensor, Tensor]:
        push = beta * torch.sigmoid(-margins(chances))
        losses = torch.zeros(ROWS, LENGTH)
        losses[0::2, 0] = F.softplus(-margins(chances))
        by_row = torch.stack([-push, push], 1).flatten()
        return losses.flatten(), by_row[:, None].expand(ROWS, LENGTH).flatten()

    same(by_coefficients(weigh), by_autograd(lambda chances: F.softplus(-margins(chances)).sum()))


def test_a_clipped_policy_gradient_is_a_coefficient_a_token() -> None:
    """Proximal policy optimisation (Schulman et al. 2017, eq. 7)."""
    source = torch.Generator().manual_seed(5)
    advantage = torch.randn(ROWS * LENGTH, generator=source)
    old = -11.0 + 0.3 * torch.randn(ROWS * LENGTH, generator=source)

    def gains(chances: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ratio = torch.exp(chances - old)
        return ratio, ratio * advantage, ratio.clamp(0.8, 1.2) * advantage

    def weigh(chances: Tensor) -> tuple[Tensor, Tensor]:
        ratio, free, clipped = gains(chances)
        return -torch.minimum(free, clipped), -advantage * ratio * (free <= clipped)

    same(by_coefficients(weigh), by_autograd(lambda chances: -torch.minimum(*gains(chances)[1:]).sum()))
