"""A leaf's gradient is taken alone, and added as its place in the tree says."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tutti.model.batch import CheckedBatch, checked
from tutti.model.batch_test import Rows
from tutti.model.chunks import Layout
from tutti.model.exchange import Exchange
from tutti.model.gradients import Gradients, piecewise_sum, squared_norms
from tutti.model.objective import NextToken
from tutti.model.parameters import Replicated
from tutti.model.plan import Plan, Shape
from tutti.model.transformer import Transformer
from tutti.model.transformer_test import MODEL, rows, vector_of
from tutti.model.tree import PIECE, Node

LAYOUT = Layout(MODEL)


def batch(seed: int, rows_of: slice = slice(None)) -> CheckedBatch:
    tokens, documents, valid = (part[rows_of].numpy() for part in rows(seed))
    return checked(Rows(tokens, documents, valid), MODEL, len(tokens), "a leaf")


def gradients_of(kind: type[Transformer] = Transformer, vector: Tensor | None = None) -> Gradients:
    """The gradients of a model on one rank, with the parameters of `made` unless given."""
    plan = Plan(LAYOUT, Shape(1), leaves=8)
    held = Replicated(plan, Exchange(None, rank=0, ranks=1), device=torch.device("cpu"), dtype=torch.float32)
    held.refresh(vector_of(MODEL) if vector is None else vector)
    transformer = kind.of_units(LAYOUT, held.units, device=held.vector.device, dtype=torch.float32, compiled=False)
    return Gradients(LAYOUT, transformer, NextToken(), held)


def gradient(*batches: CheckedBatch) -> Tensor:
    """The tree sum of these leaves."""
    gradients = gradients_of()
    sums = gradients.new_sums(len(batches))
    for leaf, each in enumerate(batches):
        gradients.add_leaf(sums, leaf, each)
    return sums.total().vector


def test_leaves_are_added_as_the_tree_says_to_the_bit() -> None:
    a, b, c = (gradient(batch(seed)) for seed in range(3))
    assert gradient(batch(0), batch(1), batch(2)).equal((a + b) + c)


def test_control_one_leaf_after_the_other_gives_other_bits() -> None:
    parts = [gradient(batch(seed)) for seed in range(4)]
    in_a_row = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    assert not gradient(*(batch(seed) for seed in range(4))).equal(in_a_row)


def test_control_a_leaf_is_not_the_sum_of_smaller_leaves() -> None:
    """Why less memory means fewer leaves in flight, never smaller ones."""
    halves = gradient(batch(0, slice(0, 1))) + gradient(batch(0, slice(1, 2)))
    whole = gradient(batch(0))
    torch.testing.assert_close(whole, halves, rtol=1e-3, atol=1e-4)
    assert not whole.equal(halves)


def test_eight_leaves_need_three_buffers_and_keep_them() -> None:
    gradients = gradients_of()
    for _ in range(2):
        sums = gradients.new_sums(8)
        for leaf in range(8):
            gradients.add_leaf(sums, leaf, batch(leaf))
        gradients.release(sums)
    assert gradients.buffers == 3


def test_a_fingerprinted_leaf_adds_the_same_bits() -> None:
    gradients = gradients_of()
    sums = gradients.new_sums(2)
    gradients.add_leaf(sums, 0, batch(0))
    tally, found = gradients.add_fingerprinted_leaf(sums, 1, batch(1))
    assert sums.total().vector.equal(gradient(batch(0), batch(1)))
    assert found == gradients.fingerprint_leaf(batch(1))
    assert found != gradients.fingerprint_leaf(batch(2))
    assert tally == gradients.token_sum(batch(1))


def test_a_gradient_is_taken_and_not_added_to_zeros() -> None:
    class NegativeZeros(Transformer):
        def token_losses(self, tokens: Tensor, documents: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
            total = torch.stack([(field * -0.0).sum() for unit in self.units for field in unit.values()]).sum()
            return total, torch.zeros(valid.numel())

    gradients = gradients_of(NegativeZeros, torch.ones(LAYOUT.elements))
    sums = gradients.new_sums(1)
    gradients.add_leaf(sums, 0, batch(0))
    vector = sums.total().vector
    for use in LAYOUT.uses:
        for field in use.unit.fields:
            taken = vector[use.gradient_start + field.start :][: field.length]
            assert taken.signbit().all()
            assert not (torch.zeros(field.length) + taken).signbit().any()


def test_padding_has_no_gradient() -> None:
    vector = gradient(batch(0), batch(1))
    field = LAYOUT.uses[1].unit.fields[-1]
    end = LAYOUT.uses[1].gradient_start + field.start + field.length
    assert field.length % 64
    assert (vector[end : end + 64 - field.length % 64] == 0).all()


@pytest.mark.parametrize("length", [1, 64, PIECE, PIECE + 64, 5 * PIECE + 128])
def test_sums_do_not_depend_on_threads(length: int) -> None:
    vector = torch.randn(length, generator=torch.Generator().manual_seed(length))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append((piecewise_sum(vector), squared_norms(vector, [length])[0]))
    finally:
        torch.set_num_threads(before)
    assert len(set(found)) == 1
    assert found[0][0] == pytest.approx(float(vector.double().sum()), abs=1e-2)


def test_a_norm_is_the_same_alone_and_among_others() -> None:
    vector = torch.randn(3 * PIECE + 640)
    lengths = [PIECE, 2 * PIECE + 64, 576]
    alone = [squared_norms(part.clone(), [len(part)])[0] for part in torch.split(vector, lengths)]
    assert squared_norms(vector, lengths) == alone
    assert np.isclose(sum(alone), float(vector.double().square().sum()))


def test_a_rank_without_chunks_has_no_norms() -> None:
    assert squared_norms(torch.empty(0), []) == []


def test_nodes_are_named_by_their_place() -> None:
    gradients = gradients_of()
    sums = gradients.new_sums(8)
    for leaf in (2, 3, 4):
        gradients.add_leaf(sums, leaf, batch(leaf))
    assert set(sums.nodes) == {Node(1, 1), Node(0, 4)}
