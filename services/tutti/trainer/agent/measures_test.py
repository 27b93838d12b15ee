"""What a node measures is found under the names that are documented."""

import pytest

from tutti.chassis.metrics import metrics
from tutti.contracts.trainer.v1 import OUTCOME_COMMITTED, OUTCOME_SKIPPED, Progress
from tutti.model.results import SkipCause
from tutti.trainer.agent import measures


def shown(name: str) -> float | None:
    return metrics.registry.get_sample_value(name, {"job": "jobs/measured"})


def test_every_number_of_a_step_is_shown() -> None:
    told = Progress(
        step=7, outcome=OUTCOME_COMMITTED, loss=3.0, gradient_norm=0.5, rate=0.001, tokens=4096, seconds=2.0
    )
    told.timings.update({"read": 0.1, "reduce": 0.25, "vote": 0.25, "gather": 0.5})
    told.validation_nats, told.validation_tokens, told.bits_per_byte = 300.0, 100, 1.5
    measures.progress("jobs/measured", told, 10.0)
    assert (shown("loss"), shown("gradient_norm"), shown("learning_rate")) == (3.0, 0.5, 0.001)
    assert (shown("tokens_per_second"), shown("step_time_seconds_sum")) == (2048.0, 2.0)
    assert (shown("validation_loss"), shown("bits_per_byte")) == (3.0, 1.5)
    assert shown("communication_time_ratio") == pytest.approx(0.5)


def test_the_steps_of_a_spike_are_no_overflow() -> None:
    told = Progress(step=8, outcome=OUTCOME_SKIPPED, skip_cause=SkipCause.SPIKE, seconds=1.0)
    told.timings.update({"read": 0.1})
    told.spike.first, told.spike.last = 7, 8
    measures.progress("jobs/measured", told, 11.0)
    assert (shown("overflow_count_total") or 0.0, shown("spikes_total")) == (0.0, 1.0)
    told.skip_cause = SkipCause.NOT_FINITE
    measures.progress("jobs/measured", told, 12.0)
    assert shown("overflow_count_total") == 1.0


def test_what_rules_count_is_shown_as_zero_before_it_happens() -> None:
    measures.began("jobs/new", 1.0)
    names = ("lost_attempts_total", "overflow_count_total", "restore_seconds_count", "checkpoint_bytes_total")
    assert [metrics.registry.get_sample_value(name, {"job": "jobs/new"}) for name in names] == [0.0] * 4


def test_how_much_of_a_dataset_was_on_the_node_already_is_shown() -> None:
    measures.staged("jobs/measured", 0, 0)
    assert shown("cache_hit_ratio") is None
    measures.staged("jobs/measured", 300, 100)
    assert shown("cache_hit_ratio") == 0.75
