"""The rate of a step follows from the step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.schedule import learning_rate
from tutti.model.spec import OptimizerSpec


@st.composite
def optimizers(draw: st.DrawFn) -> OptimizerSpec:
    steps = draw(st.integers(2, 500))
    return OptimizerSpec(
        peak_rate=1e-2,
        min_rate=draw(st.sampled_from([0.0, 1e-3])),
        steps=steps,
        warmup_steps=draw(st.integers(0, steps - 1)),
        schedule=draw(st.sampled_from(["cosine", "wsd"])),
        decay_fraction=draw(st.floats(0, 1)),
    )


@given(optimizers())
def test_it_rises_to_the_peak_then_never_rises_again(spec: OptimizerSpec) -> None:
    rates = [learning_rate(spec, step) for step in range(1, spec.steps + 1)]
    warm, rest = rates[: spec.warmup_steps], rates[spec.warmup_steps :]
    assert warm == sorted(warm)
    assert rest == sorted(rest, reverse=True)
    assert all(0 <= rate <= spec.peak_rate for rate in rates)
    assert rates[-1] == spec.min_rate
    if warm:
        assert warm[-1] == spec.peak_rate


def test_cosine_is_half_way_in_the_middle() -> None:
    spec = OptimizerSpec(peak_rate=1.0, min_rate=0.5, steps=110, warmup_steps=10)
    assert learning_rate(spec, 60) == pytest.approx(0.75)


def test_wsd_stays_then_falls_in_a_line() -> None:
    spec = OptimizerSpec(peak_rate=1.0, steps=110, warmup_steps=10, schedule="wsd", decay_fraction=0.2)
    assert [learning_rate(spec, step) for step in (11, 90, 100, 105, 110)] == pytest.approx([1, 1, 0.5, 0.25, 0])


def test_beyond_the_last_step_it_stays_low() -> None:
    spec = OptimizerSpec(peak_rate=1.0, min_rate=0.1, steps=10)
    assert learning_rate(spec, 11) == 0.1


def test_there_is_no_step_zero() -> None:
    with pytest.raises(ValueError, match="numbered from 1"):
        learning_rate(OptimizerSpec(peak_rate=1.0, steps=10), 0)
