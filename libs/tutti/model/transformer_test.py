"""The model: what attends to what, and that its bits follow its rules."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tutti.model.blocks import document_mask, rotary_tables
from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL
from tutti.model.initial import initial_parameters
from tutti.model.spec import ModelSpec
from tutti.model.transformer import Transformer

MODEL = replace(SMALL, qk_norm=True, init_std=0.1)


def vector_of(model: ModelSpec) -> Tensor:
    layout = Layout(model)
    return torch.cat([torch.from_numpy(initial_parameters(layout, chunk, 1)) for chunk in layout.chunks])


def made(model: ModelSpec) -> Transformer:
    return Transformer(Layout(model), vector_of(model), compiled=False)


def rows(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two rows, each of two documents with the border at 12 and at 20."""
    tokens = torch.randint(0, 320, (2, 33), generator=torch.Generator().manual_seed(seed))
    documents = (torch.arange(33) >= torch.tensor([[12], [20]])).long()
    return tokens, documents, torch.ones(2, 32, dtype=torch.bool)


def losses(model: ModelSpec, tokens: Tensor, documents: Tensor, valid: Tensor) -> Tensor:
    with torch.no_grad():
        return made(model).token_losses(tokens, documents, valid)[1].view(2, 32)


def test_tokens_of_another_document_do_not_influence_a_loss() -> None:
    tokens, documents, valid = rows()
    other = torch.where(documents == 0, rows(seed=1)[0], tokens)
    second = documents[:, :-1] == 1
    before, after = losses(MODEL, tokens, documents, valid), losses(MODEL, other, documents, valid)
    assert before[second].equal(after[second])
    assert not before[~second].equal(after[~second])


def test_control_without_document_boundaries_they_do() -> None:
    model = replace(MODEL, document_mask=False)
    tokens, documents, valid = rows()
    other = torch.where(documents == 0, rows(seed=1)[0], tokens)
    second = documents[:, :-1] == 1
    assert not losses(model, tokens, documents, valid)[second].equal(losses(model, other, documents, valid)[second])


@pytest.mark.parametrize("document_mask", [True, False])
def test_later_tokens_do_not_influence_a_loss(document_mask: bool) -> None:
    model = replace(MODEL, document_mask=document_mask)
    tokens, documents, valid = rows()
    other = tokens.clone()
    other[:, 25:] = rows(seed=2)[0][:, 25:]
    before, after = (losses(model, each, documents * 0, valid) for each in (tokens, other))
    assert before[:, :24].equal(after[:, :24])
    assert not before[:, 25:].equal(after[:, 25:])


def test_a_single_document_masks_like_plain_causal_attention() -> None:
    tokens, documents, valid = rows()
    masked = losses(MODEL, tokens, documents * 0, valid)
    plain = losses(replace(MODEL, document_mask=False), tokens, documents * 0, valid)
    torch.testing.assert_close(masked, plain, rtol=1e-4, atol=1e-4)


def test_every_position_attends_to_itself() -> None:
    mask = document_mask(torch.tensor([[3, 3, 1, 7]]), torch.float32)[0, 0]
    expected = [[True, False, False, False], [True, True, False, False]]
    expected += [[False, False, True, False], [False, False, False, True]]
    assert (mask == 0).tolist() == expected


def test_what_is_not_valid_has_no_loss_and_no_gradient() -> None:
    tokens, documents, valid = rows()
    valid[:, 5:] = False
    model = made(MODEL)
    total, found = model.token_losses(tokens, documents, valid)
    total.backward()  # type: ignore[no-untyped-call]
    assert (found.view(2, 32)[:, 5:] == 0).all()
    used = sorted(set(tokens[:, :5].flatten().tolist()))
    gradient = model.units[0]["weight"].grad
    assert gradient is not None
    assert gradient.abs().sum(1).nonzero().flatten().tolist() == used


def test_grouped_queries_equal_repeated_keys_and_values() -> None:
    grouped = made(replace(MODEL, qk_norm=False))
    repeated = made(replace(MODEL, qk_norm=False, kv_heads=4))
    with torch.no_grad():
        for mine, other in zip(grouped.units, repeated.units, strict=True):
            for name, tensor in mine.items():
                if name == "query_key_value":
                    query, key, value = torch.split(tensor, [64, 32, 32])
                    parts = [part.view(2, 16, 64).repeat_interleave(2, dim=0).flatten(0, 1) for part in (key, value)]
                    other[name].copy_(torch.cat([query, *parts]))
                else:
                    other[name].copy_(tensor)
        ours, theirs = (model.token_losses(*rows())[1] for model in (grouped, repeated))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@given(st.integers(0, 20), st.integers(0, 11))
def test_rotary_scores_depend_on_the_distance_alone(distance: int, shift: int) -> None:
    cosines, sines = (table[:, 0] for table in rotary_tables(SMALL, torch.device("cpu"), torch.float32))

    def turned(x: Tensor, at: int) -> Tensor:
        first, second = x.chunk(2)
        return x * cosines[at] + torch.cat([second, first]) * sines[at]

    query, key = torch.linspace(-1, 1, 16), torch.linspace(2, 1, 16)
    here = turned(query, distance) @ turned(key, 0)
    there = turned(query, distance + shift) @ turned(key, shift)
    torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-4)


@given(st.lists(st.integers(1, 99), max_size=5))
def test_silu_and_pow_keep_their_bits_on_aligned_pieces(cuts: list[int]) -> None:
    """The rule of tails: they may differ on a piece that does not start and end on a multiple of 64."""
    x = torch.randn(6400, generator=torch.Generator().manual_seed(0))
    edges = [0, *sorted({64 * cut for cut in cuts}), 6400]
    for function in (F.silu, torch.sigmoid, lambda part: part.abs().pow(1.5)):
        pieces = [function(x[start:stop]) for start, stop in pairwise(edges)]
        assert torch.cat(pieces).equal(function(x))


def test_a_forward_is_a_pure_function() -> None:
    assert losses(MODEL, *rows()).equal(losses(MODEL, *rows()))
