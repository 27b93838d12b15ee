"""Scores of texts: what reward models and divergences count, and that blocks do not matter."""

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from tutti.inference.decoder_test import MODEL, parameters
from tutti.inference.scoring import divergences, rewards
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
