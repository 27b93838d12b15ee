"""Sampling has the log-probabilities of training, to the bit: what was recorded, computed again by a leaf's forward."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

from tests.scale import SOAK, scale
from tutti.inference.decoder_test import MODEL, parameters, tokens_of
from tutti.inference.engine import Completion, EngineStopped, Mode, NotExact, Request, Weights, generate
from tutti.inference.limits import Limits
from tutti.inference.parity import score
from tutti.inference.sampling import Sampling
from tutti.inference.slotengine import SlotEngine
from tutti.inference.slots import MOST_QUERY_ROWS, QUERY_ROWS
from tutti.model.spec import REGISTER, ModelSpec, row_length
from tutti.model.transformer import Transformer

SMALL = replace(MODEL, width=64, hidden=160)
SHAPES = [
    replace(SMALL, vocabulary=512, kv_heads=4, context=96, tied=True),
    replace(SMALL, vocabulary=300, kv_heads=2, qk_norm=True, context=200),
    replace(SMALL, vocabulary=32, width=60, heads=3, kv_heads=3, hidden=100, document_mask=False),
    replace(SMALL, vocabulary=4096, kv_heads=1, context=128),
    replace(SMALL, vocabulary=1000, kv_heads=4, qk_norm=True, tied=True, rope_base=500.0),
    replace(SMALL, vocabulary=48, width=32, heads=2, kv_heads=1, hidden=64, context=48),
    replace(SMALL, vocabulary=512, width=128, heads=8, kv_heads=2, hidden=320, context=160),
    replace(SMALL, vocabulary=777, width=96, heads=4, kv_heads=4, hidden=200, layers=3, document_mask=False),
    replace(SMALL, vocabulary=512, head_dim=32, qk_norm=True, context=96),
]
ROWS, TOKENS, BLOCK = 4, 24, 44
LIMITS = {"tokens": TOKENS, "end": -1}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As ranks have by default."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def blocks(model: ModelSpec, engine: SlotEngine) -> Iterator[tuple[list[Request], Sequence[Completion]]]:
    """Requests with prompts of one to five tokens, four of each prompt, and what the engine completed."""
    limits = Limits(vocabulary=model.vocabulary, tokens=LIMITS["tokens"], end=LIMITS["end"])
    for first in count(0, BLOCK):
        numbers = range(first, first + BLOCK)
        asked = [Request(n, tuple(tokens_of(model, 1 + n % 5, seed=n // 4))) for n in numbers]
        yield asked, generate(engine, asked, Sampling(seed=5), limits)


@pytest.mark.parametrize("shape", (*range(len(SHAPES)),) if SOAK else (0, 1, 8))
def test_recorded_log_probabilities_are_those_of_a_leafs_forward(shape: int) -> None:
    wanted = scale(test=1_000, soak=100_000)
    model = SHAPES[shape]
    layout, vector = parameters(model)
    length = 0 if shape == 0 else 5 + TOKENS if shape == 1 else row_length(5 + TOKENS, model.context)
    engine = SlotEngine(layout, rows=ROWS, mode=Mode.EXACT, length=length)
    try:
        engine.start(Weights("mine", vector * 2))
    except NotExact:  # with MKL_CBWR=COMPATIBLE attention computes the last rows of such a length in another order
        assert length % REGISTER
        return
    mine, stale = (Transformer(layout, vector * by, compiled=False) for by in (2, 2.00001))

    def worst(transformer: Transformer, asked: Sequence[Request], found: Sequence[Completion]) -> float:
        texts = [(*request.prompt, *one.tokens) for request, one in zip(asked, found, strict=True)]
        rows = score(transformer, texts, rows=ROWS, length=length)
        parts = [row[len(request.prompt) - 1 :] for row, request in zip(rows, asked, strict=True)]
        return max(float(np.abs(part - one.logprobs).max()) for part, one in zip(parts, found, strict=True))

    compared = 0
    for asked, found in blocks(model, engine):
        compared += sum(len(one.tokens) for one in found)
        assert worst(mine, asked, found) == 0.0
        if compared >= wanted:
            break
    assert worst(stale, asked, found) > 0.0  # the control: stale weights
    print(f"shape {shape}: {compared} tokens, the largest difference is 0.0")


def test_attention_has_as_many_query_rows_as_the_kernels_of_this_machine_need() -> None:
    """More than one everywhere; with MKL_CBWR=COMPATIBLE more than four."""
    for model in SHAPES[::2]:
        layout, vector = parameters(model)
        engine = SlotEngine(layout, rows=2, mode=Mode.EXACT, slots=8, query_rows=(1, QUERY_ROWS, MOST_QUERY_ROWS))
        engine.start(Weights("mine", vector * 2))
        assert engine.digest == "mine"


def test_control_one_query_row_is_refused_by_name() -> None:
    for model in SHAPES[:2]:
        layout, vector = parameters(model)
        engine = SlotEngine(layout, rows=2, mode=Mode.EXACT, slots=8, query_rows=(1,))
        with pytest.raises(NotExact, match=r"differs from a leaf's forward by up to .* use fast mode"):
            engine.start(Weights("mine", vector * 2))
        with pytest.raises(EngineStopped):
            engine.score([(1, 2)])
