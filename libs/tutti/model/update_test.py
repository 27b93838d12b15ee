"""The update is AdamW, and does not care how a rank's state is cut."""

from dataclasses import replace
from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tutti.model.chunks import Chunk, Layout
from tutti.model.chunks_test import SMALL
from tutti.model.spec import OptimizerSpec
from tutti.model.update import adamw, runs_of

SPEC = OptimizerSpec(peak_rate=1e-2, steps=10, weight_decay=0.3)


def drawn(count: int, length: int, seed: int = 0) -> list[Tensor]:
    return list(torch.randn(count, length, generator=torch.Generator().manual_seed(seed)).unbind())


def moved(gradients: list[Tensor], cuts: list[int], *, decay: bool) -> Tensor:
    """Parameter and moments after one update a gradient, each applied slice by slice."""
    length = len(gradients[0])
    state = torch.stack([drawn(1, length, seed=9)[0], torch.zeros(length), torch.zeros(length)])
    edges = [0, *sorted(cuts), length]
    for updates, gradient in enumerate(gradients, start=1):
        for start, stop in pairwise(edges):
            adamw(
                SPEC,
                parameter=state[0, start:stop],
                first_moment=state[1, start:stop],
                second_moment=state[2, start:stop],
                gradient=gradient[start:stop],
                rate=1e-2,
                updates=updates,
                decay=decay,
            )
    return state


@given(st.lists(st.integers(0, 1000), max_size=6), st.booleans())
def test_cutting_anywhere_changes_no_bit(cuts: list[int], decay: bool) -> None:
    gradients = drawn(3, 1000)
    assert moved(gradients, cuts, decay=decay).equal(moved(gradients, [], decay=decay))


def test_it_is_torch_adamw_to_the_bit() -> None:
    for decay in (True, False):
        gradients = drawn(5, 1000)
        parameter = torch.nn.Parameter(drawn(1, 1000, seed=9)[0])
        weight_decay = SPEC.weight_decay if decay else 0.0
        reference = torch.optim.AdamW(
            [parameter],
            lr=1e-2,
            betas=(SPEC.beta1, SPEC.beta2),
            eps=SPEC.epsilon,
            weight_decay=weight_decay,
            foreach=False,
            fused=False,
        )
        for gradient in gradients:
            parameter.grad = gradient.clone()
            reference.step()
        kept = reference.state[parameter]
        expected = torch.stack([parameter.detach(), kept["exp_avg"], kept["exp_avg_sq"]])
        assert moved(gradients, [], decay=decay).equal(expected)


def test_runs_join_neighbours_of_one_decay_and_lose_none() -> None:
    chunks = Layout(replace(SMALL, vocabulary=9000), 1024).chunks
    runs = runs_of(chunks, 1 << 18)
    assert [run.start for run in runs[1:]] == [run.stop for run in runs[:-1]]
    assert runs[-1].stop == sum(chunk.length for chunk in chunks)
    assert max(run.stop - run.start for run in runs) <= 1 << 18
    assert len(runs) < len(chunks) / 10
    decays = [chunk.decay for chunk in chunks for _ in range(chunk.length // 64)]
    assert decays == [run.decay for run in runs for _ in range((run.stop - run.start) // 64)]


def test_a_rank_without_chunks_has_no_runs() -> None:
    none: tuple[Chunk, ...] = ()
    assert runs_of(none, 64) == ()
