"""Losses over pairs: their derivatives are those that autograd finds."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tutti.model.batch import BatchError, CheckedBatch, checked
from tutti.model.chunks import Layout
from tutti.model.preference import DirectPreference, RewardPairs, fitted
from tutti.model.spec import ModelSpec
from tutti.model.transformer import Transformer

MODEL = ModelSpec(
    vocabulary=40, width=16, layers=1, heads=2, kv_heads=2, hidden=32, context=8, document_mask=False, scalar_head=True
)
FIRST, WEIGHT = np.array([0.9, 0.2], np.float32), np.array([1.0, 2.5], np.float32)


@dataclass(frozen=True)
class Leaf:
    tokens: Any
    documents: Any
    valid: Any
    pooled: Any
    reference: Any
    first: Any = field(default_factory=lambda: FIRST)
    weight: Any = field(default_factory=lambda: WEIGHT)


def leaf(**changes: Any) -> Leaf:
    random = np.random.default_rng(0)
    valid = np.arange(8) >= np.array([3, 2, 5, 4])[:, None]
    found: dict[str, Any] = {
        "tokens": random.integers(0, 40, (4, 9)),
        "documents": np.zeros((4, 9), np.int64),
        "valid": valid,
        "pooled": np.roll(valid, 1, 1),
        "reference": random.normal(-3, 0.5, (4, 8)).astype(np.float32),
    }
    return Leaf(**(found | changes))


def model() -> Transformer:
    layout = Layout(MODEL)
    vector = torch.randn(layout.elements, generator=torch.Generator().manual_seed(1)) * 0.2
    return Transformer(layout, vector, compiled=False)


def given(batch: CheckedBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.from_numpy(batch.tokens), torch.from_numpy(batch.documents), torch.from_numpy(batch.valid)


def gradients(transformer: Transformer, total: torch.Tensor) -> list[torch.Tensor | None]:
    fields = [field for unit in transformer.units for field in unit.values()]
    for each in fields:
        each.grad = None
    total.backward()  # type: ignore[no-untyped-call]
    return [None if each.grad is None else each.grad.clone() for each in fields]


def reference_loss(margins: torch.Tensor) -> torch.Tensor:
    first, weight = torch.from_numpy(FIRST), torch.from_numpy(WEIGHT)
    return -(weight * (first * F.logsigmoid(margins) + (1 - first) * F.logsigmoid(-margins))).sum()


def close(seen: list[torch.Tensor | None], expected: list[torch.Tensor | None]) -> None:
    assert [each is None for each in seen] == [each is None for each in expected]
    for one, other in zip(seen, expected, strict=True):
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-6)


def test_the_gradient_of_a_reward_is_that_of_its_loss() -> None:
    batch, transformer = checked(leaf(), MODEL, 4, "leaf"), model()
    tokens, documents, valid = given(batch)
    total, losses = RewardPairs().losses(transformer, tokens, documents, valid, batch)
    seen = gradients(transformer, total)
    scores = transformer.scores(tokens, documents, torch.from_numpy(leaf().pooled))
    expected = reference_loss(scores[0::2] - scores[1::2])
    close(seen, gradients(transformer, expected))
    assert float(losses.sum()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert any(each is None for each in seen)  # the output matrix is not used


def test_a_score_is_the_head_over_the_mean_of_the_answers_states() -> None:
    transformer, one = model(), leaf()
    tokens, documents = torch.from_numpy(one.tokens), torch.from_numpy(one.documents)
    hidden = transformer._hidden(tokens, documents)[0].view(4, 8, 16)
    weight = transformer.units[-1]["weight"][0]
    for row in range(4):
        expected = (hidden[row][torch.from_numpy(one.pooled[row])] @ weight).mean()
        score = transformer.scores(tokens, documents, torch.from_numpy(one.pooled))[row]
        assert score.item() == pytest.approx(expected.item(), rel=1e-4)
    assert not transformer.scores(tokens, documents, torch.zeros(4, 8, dtype=torch.bool)).any()


def test_the_gradient_of_a_direct_preference_is_that_of_its_loss() -> None:
    batch, transformer = checked(leaf(), MODEL, 4, "leaf"), model()
    tokens, documents, valid = given(batch)
    total, losses = DirectPreference(0.3).losses(transformer, tokens, documents, valid, batch)
    seen = gradients(transformer, total)
    hidden, weight = transformer._hidden(tokens, documents)
    chances = F.log_softmax(hidden @ weight.t(), -1).gather(-1, tokens[:, 1:].reshape(-1, 1)).view(4, 8)
    ratios = ((chances - torch.from_numpy(leaf().reference)) * valid).sum(1)
    expected = reference_loss(0.3 * (ratios[0::2] - ratios[1::2]))
    close(seen, gradients(transformer, expected))
    assert float(losses.sum()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_padding_counts_nothing_and_has_no_gradient() -> None:
    padded = leaf(weight=np.array([1.0, 0.0], np.float32))
    batch = checked(padded, MODEL, 4, "leaf")
    assert RewardPairs().count(batch) == 1
    losses, slopes = fitted(torch.tensor([0.5, 3.0]), padded)
    assert (float(losses[1]), float(slopes[1])) == (0.0, 0.0)


def test_a_batch_without_preferences_is_refused() -> None:
    with pytest.raises(BatchError, match="expected two rows for each"):
        RewardPairs().count(checked(leaf(first=FIRST[:1]), MODEL, 4, "leaf"))
