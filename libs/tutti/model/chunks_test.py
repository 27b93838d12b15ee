"""Chunks tile the state and follow from the model alone."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.chunks import ALIGN, LARGEST_CHUNK, SMALLEST_CHUNK, Layout, chunk_size_for
from tutti.model.spec import ModelSpec, SpecError

SMALL = ModelSpec(vocabulary=320, width=64, layers=2, heads=4, kv_heads=2, hidden=192, context=32)


@st.composite
def models(draw: st.DrawFn) -> ModelSpec:
    kv_heads, group, half = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    heads, width = kv_heads * group, draw(st.integers(1, 40))
    return ModelSpec(
        vocabulary=draw(st.integers(1, 200)),
        width=width,
        layers=draw(st.integers(1, 4)),
        heads=heads,
        kv_heads=kv_heads,
        hidden=draw(st.integers(1, 100)),
        context=16,
        tied=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
        head_dim=0 if width == heads * half * 2 else half * 2,
    )


@given(models(), st.sampled_from([64, 1024, 16_384]))
def test_chunks_tile_every_unit_in_order_within_decay_groups(model: ModelSpec, chunk_size: int) -> None:
    layout = Layout(model, chunk_size)
    assert [chunk.index for chunk in layout.chunks] == list(range(len(layout.chunks)))
    for unit in layout.units:
        own = [chunk for chunk in layout.chunks if chunk.unit == unit.name]
        if unit.owner != unit.name:
            assert own == []
            continue
        end = 0
        for chunk in own:
            assert chunk.start == end
            assert 0 < chunk.length <= chunk_size
            assert chunk.length % ALIGN == 0
            end += chunk.length
            for field in unit.fields:
                if field.start < end and chunk.start < field.start + field.length:
                    assert field.decay == chunk.decay
        assert end == unit.length
    assert layout.elements == sum(chunk.length for chunk in layout.chunks)
    ends = accumulate(chunk.length for chunk in layout.chunks)
    assert list(layout.offsets) == [0, *ends][:-1]


@given(models())
def test_fields_start_on_aligned_places_and_do_not_overlap(model: ModelSpec) -> None:
    for unit in Layout(model).units:
        end = 0
        for field in unit.fields:
            assert field.start % ALIGN == 0
            assert end <= field.start < end + ALIGN
            end = field.start + field.length


@given(models())
def test_padding_between_fields_is_no_parameter(model: ModelSpec) -> None:
    attention = (2 * model.heads + 2 * model.kv_heads) * model.head_width * model.width
    norms = 2 * model.width + (2 * model.head_width if model.qk_norm else 0)
    biases = (model.heads + 2 * model.kv_heads) * model.head_width if model.qkv_bias else 0
    block = attention + 3 * model.hidden * model.width + norms + biases
    matrices = 1 if model.tied else 2
    expected = matrices * model.vocabulary * model.width + model.layers * block + model.width
    assert Layout(model).parameters == expected <= Layout(model).elements


@given(models())
def test_a_layout_comes_back_from_its_record(model: ModelSpec) -> None:
    layout = Layout(model)
    again = Layout.from_dict(layout.to_dict())
    assert (again.chunks, again.units, again.digest) == (layout.chunks, layout.units, layout.digest)


@given(st.integers(1, 10**12))
def test_a_chunk_is_a_power_of_two_and_a_large_model_has_enough_of_them(elements: int) -> None:
    size = chunk_size_for(elements)
    assert size & (size - 1) == 0
    assert SMALLEST_CHUNK <= size <= LARGEST_CHUNK
    if elements >= 256 * SMALLEST_CHUNK:
        assert elements / size >= 256
    if elements <= 65_536 * LARGEST_CHUNK:
        assert elements / size <= 65_536


def test_tied_embeddings_are_one_state_with_two_uses() -> None:
    untied, tied = Layout(SMALL), Layout(replace(SMALL, tied=True))
    embed, output = tied.uses[0], tied.uses[-1]
    assert output.state_start == embed.state_start
    assert output.gradient_start == tied.elements
    assert tied.gradient_elements == tied.elements + embed.unit.length == untied.elements
    assert untied.gradient_elements == untied.elements


def test_a_unit_is_cut_the_same_however_many_layers_surround_it() -> None:
    def cut(layers: int) -> list[tuple[int, int, bool]]:
        layout = Layout(replace(SMALL, layers=layers), 1024)
        return [(chunk.start, chunk.length, chunk.decay) for chunk in layout.chunks if chunk.unit == "block.1"]

    assert cut(2) == cut(7)


def test_another_chunk_size_is_another_layout() -> None:
    assert Layout(SMALL, 64).digest != Layout(SMALL, 128).digest


def test_the_layout_of_a_small_model_is_golden() -> None:
    """A change here makes every stored checkpoint unreadable: it needs a new version, not a new golden value."""
    assert Layout(SMALL).digest == "e6f0a229eabd65345b3df260c13f3d46fa47d7bc990113317bfa305cd5db57a6"


@pytest.mark.parametrize("size", [0, 63, 96, -64])
def test_a_chunk_size_that_is_no_power_of_two_is_refused(size: int) -> None:
    with pytest.raises(SpecError, match="power of two"):
        Layout(SMALL, size)


def test_a_record_of_another_version_is_refused() -> None:
    with pytest.raises(SpecError, match="chunks-v1"):
        Layout.from_dict(Layout(SMALL).to_dict() | {"version": "chunks-v2"})
