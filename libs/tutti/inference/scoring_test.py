"""Scores of texts: what reward models and divergences count, and that blocks do not matter."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from tutti.inference.decoder_test import MODEL, parameters
from tutti.inference.scoring import block_rows, divergences, of_answers, rewards
from tutti.model.spec import ModelSpec
from tutti.model.transformer import Transformer

SMALL = replace(MODEL, width=64, hidden=160)
TEXTS = [[5, 6, 7, 8, 9], [5, 6, 7, 10], [1, 2]]
BEGINS = [3, 3, 1]


def made(model: ModelSpec, scale: float = 1.0) -> Transformer:
    layout, vector = parameters(model)
    vector = vector * scale
    if model.scalar_head:
        vector[-layout.units[-1].length :] = torch.linspace(-1, 1, layout.units[-1].length)
    return Transformer(layout, vector, compiled=False)


def test_a_reward_is_that_of_the_answer_alone_whatever_texts_are_beside_it() -> None:
    model = made(replace(SMALL, scalar_head=True))
    found = rewards(model, TEXTS, BEGINS, rows=2)
    assert len(set(found.tolist())) == len(TEXTS)
    for text, begin, score in zip(TEXTS, BEGINS, found, strict=True):
        assert rewards(model, [text], [begin], rows=2) == score
    assert rewards(model, TEXTS[:1], [2], rows=2) != found[0]


def test_the_divergence_is_that_of_the_distributions_of_the_answers_tokens() -> None:
    policy, reference = made(SMALL), made(SMALL, scale=0.5)
    found = divergences(policy, reference, TEXTS, BEGINS, rows=2)
    tokens = torch.zeros(1, SMALL.context + 1, dtype=torch.long)
    tokens[0, : len(TEXTS[0])] = torch.tensor(TEXTS[0])
    own, theirs = (
        F.log_softmax(F.linear(*each._hidden(tokens, torch.zeros_like(tokens))), -1) for each in (policy, reference)
    )
    expected = (own.exp() * (own - theirs)).sum(-1)[2:4].sum().detach()
    assert np.isclose(found[0], float(expected), rtol=1e-4)
    assert (found > 0).all()
    assert divergences(policy, policy, TEXTS, BEGINS, rows=2).tolist() == [0.0, 0.0, 0.0]


def test_scores_of_answers_have_the_same_bits_in_blocks_of_any_size() -> None:
    torch.set_num_threads(1)
    model = made(SMALL)
    prompts = [[1 + group, 2, 3, 4][: 2 + group % 3] for group in range(20)]
    texts = [[*prompt, *range(7 + answer, 19 + answer)] for prompt in prompts for answer in range(4)]
    begins = [len(text) - 12 for text in texts]

    def score(rows: int) -> list[list[float]]:
        forward, longest = model.answer_log_probabilities, max(begins)
        found = of_answers(model, texts, begins, forward, rows=rows, length=24, prompt=longest, answer=12)
        return [each.tolist() for each in found]

    assert score(rows=80) == score(rows=32) == score(rows=8)


def test_a_block_of_answers_has_several_leaves_where_those_are_small() -> None:
    assert [block_rows(16, 28), block_rows(16, 64), block_rows(16, 65)] == [32, 16, 16]
    assert block_rows(3, 100) == 9
