"""Spikes that are planted on the recorded curves of held-out trainings are found, and nothing else is."""

from benchmarks.spikes import count, found, recorded

CURVES = recorded()


def test_no_step_of_a_clean_training_is_a_spike() -> None:
    assert sum(map(len, CURVES.values())) >= 10_000
    assert [spike for curve in CURVES.values() for spike in found(curve)] == []


def test_planted_spikes_are_found() -> None:
    assert count(CURVES, 40, seed=1) >= 38
