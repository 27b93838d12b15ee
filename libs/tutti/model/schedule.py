"""The learning rate: a pure function of the step.

Steps are numbered from 1. Nothing is remembered between steps, so a resumed run cannot drift.
"""

import math

from tutti.model.spec import OptimizerSpec


def learning_rate(spec: OptimizerSpec, step: int) -> float:
    """The rate of a step in 1 … spec.steps.

    Warmup is linear and reaches peak_rate at step warmup_steps. "cosine" then falls to min_rate at step decay_end
    (Loshchilov and Hutter 2017, section 3). "wsd" stays at the peak and falls linearly in the last decay_fraction of
    the steps, to min_rate at decay_end (Hu et al. 2024, section 4). From decay_end on the rate is min_rate. Where that
    is the last step, a training of one step has peak_rate.
    """
    if step < 1:
        raise ValueError(f"step is {step}; steps are numbered from 1")
    if step <= spec.warmup_steps:
        return spec.peak_rate * (step / spec.warmup_steps)
    end = spec.decay_end or spec.steps
    if step >= end:
        return spec.min_rate if end > 1 else spec.peak_rate
    span = spec.peak_rate - spec.min_rate
    if spec.schedule == "cosine":
        passed = (step - spec.warmup_steps) / (end - spec.warmup_steps)
        return spec.min_rate + span * 0.5 * (1.0 + math.cos(math.pi * passed))
    decay_steps = spec.decay_fraction * (spec.steps - spec.warmup_steps) + (end - spec.steps)
    left = end - step
    return spec.peak_rate if left >= decay_steps else spec.min_rate + span * left / decay_steps


def steady_until(spec: OptimizerSpec) -> int:
    """The last step up to which a training with more steps, but the same warmup, has the same rates.

    With "wsd" that is the last step before the decay, of which the last step is a part even where nothing else is; 0
    with "cosine", which falls from the warmup on.
    """
    if spec.schedule == "cosine":
        return 0
    end = spec.decay_end or spec.steps
    decay_steps = spec.decay_fraction * (spec.steps - spec.warmup_steps) + (end - spec.steps)
    return max(spec.warmup_steps, end - max(math.ceil(decay_steps), 1 if end > 1 else 0))
