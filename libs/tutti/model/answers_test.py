"""Answers that share their prompts: the bits of whole rows, and the same gradient."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tutti.model.answers import Answers, Placed, answers_of
from tutti.model.batch import BatchError
from tutti.model.chunks import Layout
from tutti.model.initial import initial_parameters
from tutti.model.spec import ModelSpec, RopeScaling
from tutti.model.transformer import Transformer

MODEL = ModelSpec(vocabulary=320, width=64, layers=3, heads=4, kv_heads=2, hidden=160, context=96)
SHAPES = [
    MODEL,
    replace(MODEL, kv_heads=4, tied=True, vocabulary=512),
    replace(MODEL, qk_norm=True, document_mask=False),
    replace(MODEL, width=60, heads=3, kv_heads=3, hidden=100, layers=1),
    replace(MODEL, head_dim=32, qkv_bias=True, rope_scaling=RopeScaling.of("yarn", 4, 32)),
]


def transformer(model: ModelSpec) -> Transformer:
    layout = Layout(model)
    torch.set_num_threads(1)
    return Transformer(
        layout,
        torch.cat([torch.from_numpy(initial_parameters(layout, chunk, 1)) for chunk in layout.chunks]),
        compiled=False,
    )


def rows(count: int, length: int, *, prompt: int, group: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of rows, and the places of the last tokens of their prompts, which `group` rows in a row share."""
    rng = np.random.default_rng(seed)
    tokens, ends = rng.integers(0, 300, (count, length + 1)), np.zeros(count, np.int64)
    for row in range(count):
        first = row - row % group
        ends[row] = ends[first] if row > first else rng.integers(0, prompt)
        tokens[row, : ends[row] + 1] = tokens[first, : ends[row] + 1]
    return tokens, ends


@pytest.mark.parametrize("model", SHAPES)
@pytest.mark.parametrize(
    ("count", "length", "prompt", "answer", "group"),
    [
        (16, 28, 16, 12, 4),
        (2, 16, 5, 8, 1),
        (3, 40, 30, 9, 3),
        (1, 31, 17, 12, 1),
        (4, 96, 80, 20, 2),
        (4, 64, 16, 33, 2),  # one query in the last block of attention
        (4, 32, 16, 5, 2),
    ],
)
def test_log_probabilities_have_the_bits_of_whole_rows(
    model: ModelSpec, count: int, length: int, prompt: int, answer: int, group: int
) -> None:
    whole, (tokens, ends) = transformer(model), rows(count, length, prompt=prompt, group=group)
    read = torch.from_numpy(tokens)
    expected = whole.log_probabilities(read, torch.zeros_like(read)).view(count, length).numpy()
    answers = answers_of(tokens, ends, prompt=prompt, answer=answer)
    seen = whole.answer_log_probabilities(Placed(answers, whole.device, whole.dtype)).view(count, -1).numpy()
    inside = answers.places < length
    assert inside.any()
    assert np.array_equal(seen[inside], answers.window(expected)[inside])


def gradient(model: Transformer, total: Tensor) -> Tensor:
    total.backward()  # type: ignore[no-untyped-call]
    fields = [field for unit in model.units for field in unit.values()]
    found = torch.cat(
        [torch.zeros_like(each).flatten() if each.grad is None else each.grad.flatten() for each in fields]
    )
    for each in fields:
        each.grad = None
    return found


def weights(answers: Answers) -> Tensor:
    """A coefficient for each position of an answer; 0 behind the end of a row."""
    random = np.random.default_rng(3).normal(0, 1, answers.places.shape).astype(np.float32)
    return torch.from_numpy(np.where(answers.places < answers.length, random, 0)).flatten()


@pytest.mark.parametrize("model", SHAPES)
def test_the_gradient_is_that_of_whole_rows(model: ModelSpec) -> None:
    whole, (tokens, ends) = transformer(model), rows(6, 30, prompt=20, group=3)
    answers, read = answers_of(tokens, ends, prompt=20, answer=12), torch.from_numpy(tokens)
    assert len(answers.prefixes) == 2
    given = weights(answers)
    spread = torch.zeros(6, 30 + 12)
    spread.scatter_(1, torch.from_numpy(answers.places), given.view(6, -1))

    def by(coefficients: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        return lambda chances: (chances * coefficients, coefficients)

    shared = gradient(whole, whole.answer_losses(Placed(answers, whole.device, whole.dtype), by(given))[0])
    alone = gradient(whole, whole.weighted_losses(read, torch.zeros_like(read), by(spread[:, :30].flatten()))[0])
    assert float(alone.abs().max()) > 0.1
    torch.testing.assert_close(shared, alone, atol=2e-5, rtol=2e-4)


def test_values_have_the_bits_of_whole_rows() -> None:
    whole, (tokens, ends) = transformer(replace(MODEL, value_model=True)), rows(4, 40, prompt=20, group=2)
    with torch.no_grad():
        whole.units[-1]["weight"].normal_()
        read = torch.from_numpy(tokens)
        expected = whole.values(read, torch.zeros_like(read)).view(4, 40).numpy()
        answers = answers_of(tokens, ends, prompt=20, answer=10)
        seen = whole.answer_values(Placed(answers, whole.device, whole.dtype)).view(4, -1).numpy()
    assert np.array_equal(seen, answers.window(expected))


def test_a_prompt_that_several_rows_answer_is_computed_once() -> None:
    tokens, ends = rows(8, 28, prompt=16, group=4)
    assert len(answers_of(tokens, ends, prompt=16, answer=12).prefixes) == 2


def test_a_row_reads_its_prefix_and_then_its_own_inputs() -> None:
    tokens, ends = rows(8, 28, prompt=16, group=4)
    answers = answers_of(tokens, ends, prompt=16, answer=12)
    computed = np.concatenate([answers.prefixes.ravel(), answers.inputs.ravel()])
    written = np.arange(28) < ends[:, None] + 12
    assert np.array_equal(computed[answers.reads][written], tokens[:, :28][written])


def test_a_prompt_that_is_longer_than_the_longest_is_refused() -> None:
    with pytest.raises(BatchError, match="a prompt has 9 tokens; expected at most 8"):
        answers_of(np.zeros((2, 20), np.int64), np.array([3, 8]), prompt=8, answer=4)
