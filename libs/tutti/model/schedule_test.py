"""The rate of a step follows from the step."""

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tutti.model.schedule import learning_rate, steady_until
from tutti.model.spec import OptimizerSpec


@st.composite
def optimizers(draw: st.DrawFn, steps: int = 500) -> OptimizerSpec:
    steps = draw(st.integers(1, steps))
    return OptimizerSpec(
        peak_rate=1e-2,
        min_rate=draw(st.sampled_from([0.0, 1e-3])),
        steps=steps,
        warmup_steps=draw(st.integers(0, steps)),
        schedule=draw(st.sampled_from(["cosine", "wsd"])),
        decay_fraction=draw(st.floats(0, 1)),
    )


def after_the_last(spec: OptimizerSpec) -> OptimizerSpec:
    """The same optimizer with the law that recipes write."""
    return replace(spec, decay_end=spec.steps + 1)


def rates(spec: OptimizerSpec) -> list[float]:
    return [learning_rate(spec, step) for step in range(1, spec.steps + 1)]


@given(optimizers(), st.booleans())
def test_it_rises_to_the_peak_then_never_rises_again(spec: OptimizerSpec, after: bool) -> None:
    found = rates(after_the_last(spec) if after else spec)
    warm, rest = found[: spec.warmup_steps], found[spec.warmup_steps :]
    assert warm == pytest.approx([1e-2 * (at + 1) / spec.warmup_steps for at in range(spec.warmup_steps)])
    assert rest == sorted(rest, reverse=True)
    assert all(spec.min_rate <= rate <= spec.peak_rate for rate in rest)
    if warm:
        assert warm[-1] == spec.peak_rate


@given(optimizers())
def test_the_decay_of_a_recipe_ends_after_the_last_step_so_that_every_step_moves(spec: OptimizerSpec) -> None:
    spec = after_the_last(spec)
    assert all(rate > spec.min_rate for rate in rates(spec)[spec.warmup_steps :])
    assert all(rate > 0 for rate in rates(spec))
    assert learning_rate(spec, spec.steps + 1) == spec.min_rate


@given(optimizers(steps=10**7))
def test_the_last_step_of_a_long_training_moves_too(spec: OptimizerSpec) -> None:
    assert learning_rate(after_the_last(spec), spec.steps) > 0


@given(optimizers())
def test_wsd_decays_in_its_share_of_the_steps(spec: OptimizerSpec) -> None:
    spec = replace(after_the_last(spec), schedule="wsd")
    decaying = sum(rate < spec.peak_rate for rate in rates(spec)[spec.warmup_steps :])
    share = spec.decay_fraction * (spec.steps - spec.warmup_steps)
    assert share - 1e-6 <= decaying <= share + 1


@given(optimizers())
def test_without_an_end_of_the_decay_the_rates_are_those_of_earlier_versions_to_the_bit(spec: OptimizerSpec) -> None:
    assert rates(spec) == [rate_of_0_2(spec, step) for step in range(1, spec.steps + 1)]


def rate_of_0_2(spec: OptimizerSpec, step: int) -> float:
    """The law of versions before 0.3, whose trainings must resume to the same bits."""
    if step <= spec.warmup_steps:
        return spec.peak_rate * (step / spec.warmup_steps)
    if step >= spec.steps:
        return spec.min_rate if spec.steps > 1 else spec.peak_rate
    span = spec.peak_rate - spec.min_rate
    if spec.schedule == "cosine":
        passed = (step - spec.warmup_steps) / (spec.steps - spec.warmup_steps)
        return spec.min_rate + span * 0.5 * (1.0 + math.cos(math.pi * passed))
    decay_steps = spec.decay_fraction * (spec.steps - spec.warmup_steps)
    left = spec.steps - step
    return spec.peak_rate if left >= decay_steps else spec.min_rate + span * left / decay_steps


def test_cosine_is_half_way_in_the_middle() -> None:
    spec = OptimizerSpec(peak_rate=1.0, min_rate=0.5, steps=110, warmup_steps=10)
    assert learning_rate(spec, 60) == pytest.approx(0.75)
    assert learning_rate(after_the_last(replace(spec, steps=109)), 60) == pytest.approx(0.75)


def test_wsd_stays_then_falls_in_a_line() -> None:
    spec = OptimizerSpec(peak_rate=1.0, steps=110, warmup_steps=10, schedule="wsd", decay_fraction=0.2)
    assert [learning_rate(spec, step) for step in (11, 90, 100, 105, 110)] == pytest.approx([1, 1, 0.5, 0.25, 0])
    spec = OptimizerSpec(peak_rate=1.0, steps=5, schedule="wsd", decay_fraction=0.8)
    assert rates(after_the_last(spec)) == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])


def test_beyond_the_last_step_it_stays_low() -> None:
    spec = OptimizerSpec(peak_rate=1.0, min_rate=0.1, steps=10)
    assert learning_rate(spec, 11) == learning_rate(after_the_last(spec), 12) == 0.1


def test_there_is_no_step_zero() -> None:
    with pytest.raises(ValueError, match="numbered from 1"):
        learning_rate(OptimizerSpec(peak_rate=1.0, steps=10), 0)


@given(optimizers(), st.booleans(), st.integers(1, 500))
@example(OptimizerSpec(peak_rate=0.01, steps=2, schedule="wsd", decay_fraction=0.0), False, 1)
def test_a_longer_training_has_the_same_rates_until_the_decay(spec: OptimizerSpec, after: bool, more: int) -> None:
    short = after_the_last(spec) if after else spec
    steps = spec.steps + more
    longer = replace(spec, steps=steps, decay_end=steps + 1 if after else 0)
    until = min(steady_until(short), steady_until(longer))
    assert rates(short)[:until] == rates(longer)[:until]
    assert steady_until(short) <= steady_until(longer)
    if spec.schedule == "wsd" and until < short.steps and short.steps > 1:
        assert learning_rate(short, until + 1) < spec.peak_rate
