"""Logs that are counted within bounds."""

import logging

from tutti.chassis.metrics import MAX_TEMPLATES, LogCounter, Metrics


def count(metrics: Metrics, template: str) -> float | None:
    labels = {"level": "warning", "logger": "noisy", "template": template}
    return metrics.registry.get_sample_value("log_records_total", labels)


def test_a_flood_of_warnings_is_one_number_and_new_templates_are_bounded() -> None:
    metrics, log = Metrics(), logging.Logger("noisy")
    log.addHandler(LogCounter(metrics))
    for number in range(1000):
        log.warning("lost %d", number)
        log.info("found %d", number)
    assert count(metrics, "lost %d") == 1000
    assert count(metrics, "found %d") is None
    for number in range(2 * MAX_TEMPLATES):
        log.warning(f"template {number}")
    assert count(metrics, "other") == MAX_TEMPLATES + 1
