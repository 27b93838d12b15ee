"""The clipped objective: its coefficients are the derivatives of its losses."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tutti.model.answers import Placed
from tutti.model.batch import CheckedBatch
from tutti.model.policy import ClippedPolicy, PolicyLeaf, Valued, fitted_values


class Spy:
    """Keeps what the objective gives the head."""

    device, dtype = torch.device("cpu"), torch.float32

    def answer_losses(self, placed: Placed, weigh: object) -> tuple[Tensor, Tensor]:
        self.weigh = weigh
        return placed.tokens, placed.tokens


@pytest.mark.parametrize("entropy", [0.0, 0.2])
def test_coefficients_are_derivatives_of_the_losses_and_padding_has_none(entropy: float) -> None:
    rng = np.random.default_rng(1)
    shape = (2, 8)
    old, reference, advantages = (rng.normal(-3, 0.5, shape).astype(np.float32) for _ in range(3))
    valid = np.arange(8) < np.array([[5], [3]])
    advantages += 3
    leaf = PolicyLeaf(
        np.zeros((2, 9), np.int64),
        np.zeros((2, 9), np.int64),
        valid,
        old,
        reference,
        advantages,
        clip=0.2,
        kl=0.3,
        prompt=1,
        answer=8,
        entropy=entropy,
    )
    batch = CheckedBatch(leaf.tokens, leaf.documents, valid, leaf)
    spy = Spy()
    tokens = torch.zeros(2, 9, dtype=torch.long)
    ClippedPolicy().losses(spy, tokens, tokens, torch.from_numpy(valid), batch)  # type: ignore[arg-type]
    now = torch.from_numpy(old).flatten() + torch.from_numpy(rng.normal(0, 0.2, 16).astype(np.float32))
    now[~torch.from_numpy(valid).flatten()] = -1000.0
    now.requires_grad_()

    losses, coefficients = spy.weigh(now)  # type: ignore[operator]
    (slopes,) = torch.autograd.grad(losses.sum(), now)
    torch.testing.assert_close(coefficients, slopes)
    assert not coefficients[~torch.from_numpy(valid).flatten()].any()
    assert 0 < leaf.clipped.clipped < leaf.clipped.tokens == valid.sum() == ClippedPolicy().count(batch)


def test_the_first_step_of_a_policy_is_not_clipped() -> None:
    old = np.full((1, 4), -2.0, np.float32)
    leaf = PolicyLeaf(
        np.zeros((1, 5), np.int64),
        np.zeros((1, 5), np.int64),
        np.ones((1, 4), np.bool_),
        old,
        old,
        np.array([[1, -1, 2, -2]], np.float32),
        clip=0.2,
        kl=0.1,
        prompt=1,
        answer=4,
    )
    spy = Spy()
    tokens = torch.zeros(1, 5, dtype=torch.long)
    batch = CheckedBatch(leaf.tokens, leaf.documents, leaf.valid, leaf)
    ClippedPolicy().losses(spy, tokens, tokens, torch.ones(1, 4, dtype=torch.bool), batch)  # type: ignore[arg-type]
    chances = torch.full((16,), -2.0)  # a leaf computes no fewer positions
    losses, coefficients = spy.weigh(chances)  # type: ignore[operator]
    assert leaf.clipped.clipped == 0
    assert leaf.clipped.apart == 0.0
    assert coefficients.tolist() == [-1, 1, -2, 2, *[0] * 12]
    assert losses.tolist() == [-1, 1, -2, 2, *[0] * 12]
    spy.weigh(chances - 0.5)  # type: ignore[operator]
    assert leaf.clipped.apart == 0.5


def test_the_entropy_bonus_has_the_gradient_of_the_entropy_on_average() -> None:
    """Over every token that the old policy could have sampled, each by its probability."""
    source = torch.Generator().manual_seed(3)
    logits = torch.randn(16, generator=source, dtype=torch.float64, requires_grad=True)
    old = torch.log_softmax(torch.randn(16, generator=source, dtype=torch.float64), 0)
    leaf = PolicyLeaf(
        np.zeros((1, 17), np.int64),
        np.zeros((1, 17), np.int64),
        np.ones((1, 16), np.bool_),
        old.float().numpy()[None],
        old.float().numpy()[None],
        np.zeros((1, 16), np.float32),
        clip=0.2,
        kl=0.0,
        prompt=1,
        answer=16,
        entropy=0.7,
    )
    spy = Spy()
    tokens = torch.zeros(1, 17, dtype=torch.long)
    batch = CheckedBatch(leaf.tokens, leaf.documents, leaf.valid, leaf)
    ClippedPolicy().losses(spy, tokens, tokens, torch.ones(1, 16, dtype=torch.bool), batch)  # type: ignore[arg-type]
    now = torch.log_softmax(logits, 0)
    losses, coefficients = spy.weigh(now.detach().float())  # type: ignore[operator]
    entropy = -(now.exp() * now).sum()
    (expected,) = torch.autograd.grad(-0.7 * entropy, logits, retain_graph=True)
    (found,) = torch.autograd.grad((old.exp() * coefficients.double() * now).sum(), logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close((old.exp() * losses.double()).sum(), -0.7 * entropy.detach(), rtol=1e-4, atol=1e-6)


def test_the_slopes_of_values_are_derivatives_of_their_clipped_losses() -> None:
    rng = np.random.default_rng(2)
    old, returns = (rng.normal(0, 1, (2, 20)).astype(np.float32) for _ in range(2))
    valued = Valued(old, returns, clip=0.2, weight=0.5)
    mask = torch.from_numpy(rng.random(40) < 0.7)
    values = torch.from_numpy(old).flatten() + torch.from_numpy(rng.normal(0, 0.3, 40).astype(np.float32))
    values.requires_grad_()
    before, targets = (torch.from_numpy(each).flatten() for each in (old, returns))
    losses, slopes = fitted_values(values, mask, before, targets, valued)
    (expected,) = torch.autograd.grad(losses.sum(), values)
    torch.testing.assert_close(slopes.detach(), expected)
    assert not slopes[~mask].any()
    assert 0 < int((slopes[mask] == 0).sum()) < int(mask.sum())
