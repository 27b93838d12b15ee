"""Initial parameters: of a chunk, from a seed, with the spread that its fields ask for."""

from dataclasses import replace

import numpy as np
import pytest

from tutti.model.chunks import Layout
from tutti.model.chunks_test import SMALL
from tutti.model.initial import initial_parameters


def whole(layout: Layout, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return np.concatenate([initial_parameters(layout, chunk, seed) for chunk in layout.chunks])


def test_the_same_seed_gives_the_same_chunk_and_another_seed_another() -> None:
    layout = Layout(SMALL)
    first, again, other = (initial_parameters(layout, layout.chunks[1], seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, initial_parameters(layout, layout.chunks[0], 3))


def test_matrices_are_spread_gains_are_one_padding_is_zero() -> None:
    model = replace(SMALL, qk_norm=True)
    layout = Layout(model)
    values = whole(layout, 1)
    for use in layout.uses:
        for field in use.unit.fields:
            part = values[use.state_start + field.start :][: field.length]
            if field.std is None:
                assert (part == 1).all()
            else:
                assert part.std() == pytest.approx(field.std, rel=0.1)
    gains = next(use for use in layout.uses if use.unit.name == "block.0")
    key_norm = gains.unit.fields[-1]
    padding = values[gains.state_start + key_norm.start + key_norm.length : gains.state_start + gains.unit.length]
    assert len(padding) == 48
    assert (padding == 0).all()


def test_residual_outputs_start_smaller_in_deeper_models() -> None:
    stds = {field.name: field.std for field in Layout(replace(SMALL, layers=8)).units[1].fields}
    assert stds["down"] == stds["attention_output"] == pytest.approx(0.02 / 4)
    assert {field.std for field in Layout(replace(SMALL, scaled_init=False)).units[1].fields} == {0.02, None}
