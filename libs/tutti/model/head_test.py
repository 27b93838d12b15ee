"""The head is linear plus cross-entropy, in less memory."""

import pytest
import torch
import torch.nn.functional as F

from tutti.model.device import logits_at_once
from tutti.model.head import Head

CPU = torch.device("cpu")
AT_ONCE = logits_at_once(CPU)


@pytest.mark.parametrize("vocabulary", [50, AT_ONCE // 20])
def test_losses_and_gradients_are_those_of_cross_entropy(vocabulary: int) -> None:
    source = torch.Generator().manual_seed(0)
    hidden = torch.randn(45, 16, generator=source).requires_grad_()
    weight = torch.randn(vocabulary, 16, generator=source).requires_grad_()
    targets = torch.randint(0, vocabulary, (45,), generator=source)
    valid = torch.rand(45, generator=source) < 0.7
    head = Head(vocabulary, CPU)
    total, losses = head.losses(hidden, weight, targets, valid)
    total.backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert weight.grad is not None
    found = losses, hidden.grad, weight.grad
    hidden.grad = weight.grad = None
    expected = F.cross_entropy(F.linear(hidden, weight), targets, reduction="none") * valid
    expected.sum().backward()  # type: ignore[no-untyped-call]
    for ours, reference in zip(found, (expected.detach(), hidden.grad, weight.grad), strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-5)
    assert (losses[~valid] == 0).all()


@pytest.mark.parametrize("weighted", [False, True], ids=["summed", "weighted"])
@pytest.mark.parametrize("slices", [1, 16, 128])
def test_in_bf16_the_gradient_of_the_output_matrix_is_rounded_once_over_any_number_of_slices(
    slices: int, weighted: bool
) -> None:
    tokens, vocabulary, width = 2048, 256, 32
    source = torch.Generator().manual_seed(slices)
    hidden = torch.randn(tokens, width, generator=source).bfloat16().requires_grad_()
    weight = (torch.randn(vocabulary, width, generator=source) * 0.02).bfloat16().requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), generator=source)
    head = Head(vocabulary, CPU)
    head.rows = tokens // slices
    if weighted:
        total, _ = head.weighted_losses(hidden, weight, targets, lambda chances: (-chances, -torch.ones(tokens)))
    else:
        total, _ = head.losses(hidden, weight, targets, torch.ones(tokens, dtype=torch.bool))
    total.backward()  # type: ignore[no-untyped-call]
    exact = weight.detach().double().requires_grad_()
    F.cross_entropy(hidden.detach().double() @ exact.t(), targets, reduction="sum").backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert exact.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    error = float((weight.grad.double() - exact.grad).norm() / exact.grad.norm())
    assert error <= 2e-3


def test_a_large_vocabulary_is_taken_in_slices() -> None:
    assert Head(AT_ONCE // 20, CPU).rows == 20
    assert Head(50, CPU).rows == AT_ONCE // 50
    assert Head(10 * AT_ONCE, CPU).rows == 16


def test_large_logits_do_not_overflow() -> None:
    hidden, weight = torch.full((1, 4), 100.0), torch.eye(4)[:3] * 100.0
    _, losses = Head(3, CPU).losses(hidden, weight, torch.tensor([1]), torch.tensor([True]))
    torch.testing.assert_close(losses, torch.tensor([3.0]).log())
