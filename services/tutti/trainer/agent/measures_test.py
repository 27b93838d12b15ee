"""What a node measures is found under the names that are documented."""

import math

import pytest

from tutti.chassis.metrics import metrics
from tutti.contracts.trainer.v1 import OUTCOME_COMMITTED, OUTCOME_SKIPPED, Progress, Stored
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


def run(job: str) -> None:
    """An attempt of a job from its begin to its end, with everything that can be measured."""
    measures.began(job, 1.0)
    measures.staged(job, 300, 100)
    told = Progress(step=1, outcome=OUTCOME_SKIPPED, loss=math.nan, gradient_norm=0.5, seconds=1.0)
    told.timings.update({"read": 0.1})
    told.metrics.update({"accuracy": 0.5, "margin": 1.0})
    told.spike.first = told.spike.last = 1
    measures.progress(job, told, 2.0)
    measures.stored(Stored(job=job, bytes=100, seconds=1.0))
    measures.ended(job)


def jobs_shown(prefix: str) -> set[str]:
    """The jobs whose series a scrape would read."""
    labels = (sample.labels for metric in metrics.registry.collect() for sample in metric.samples)
    return {each["job"] for each in labels if each.get("job", "").startswith(prefix)}


def test_series_are_shown_of_the_jobs_that_run_and_of_those_that_ended_last() -> None:
    measures.began("jobs/short-long", 0.0)
    names = [f"jobs/short-{number}" for number in range(3 * measures.MOST_ENDED)]
    for name in names:
        run(name)
    shown_now = jobs_shown("jobs/short-")
    assert {"jobs/short-long", names[-1]} <= shown_now
    assert len(shown_now) <= measures.MOST_ENDED + 2
    assert names[0] not in shown_now
    measures.ended("jobs/short-long")


def test_a_shard_that_is_stored_late_keeps_no_series_for_ever() -> None:
    for number in range(2 * measures.MOST_ENDED):
        run(f"jobs/late-{number}")
        measures.stored(Stored(job="jobs/late-0" if number == measures.MOST_ENDED else f"jobs/late-{number}"))
    assert len(jobs_shown("jobs/late-")) <= measures.MOST_ENDED + 1
    assert "jobs/late-0" in jobs_shown("jobs/late-")
    for number in range(2 * measures.MOST_ENDED):
        run(f"jobs/later-{number}")
    assert jobs_shown("jobs/late-") == set()
