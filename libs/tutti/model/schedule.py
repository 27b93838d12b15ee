"""The learning rate: a pure function of the step.

Steps are numbered from 1. Nothing is remembered between steps, so a resumed run cannot drift.
"""

import math

from tutti.model.spec import OptimizerSpec


def learning_rate(spec: OptimizerSpec, step: int) -> float:
    """The rate of a step in 1 … spec.steps; beyond the last step it stays at min_rate.

    Warmup is linear and reaches peak_rate at step warmup_steps. "cosine" then falls to min_rate at the last step
    (Loshchilov and Hutter 2017, section 3); "wsd" stays at the peak and falls linearly over the last decay_fraction
    of the steps (Hu et al. 2024, section 4).
    """
    if step < 1:
        raise ValueError(f"step is {step}; steps are numbered from 1")
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
