"""The trace of a run: what came of one call, through all services and agents, is found under one trace id."""

from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.story import BESIDE, CALM, CALM_NODES, MAIN, Story, write_pages
from tutti.backbone import Record
from tutti.chassis.events.catalog import every_event
from tutti.chassis.telemetry import span
from tutti.contracts.scheduler.v1 import Node
from tutti.simulation.oracle import records


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Record]]:
    """A run without faults: the trace in which it was asked for, and every event."""
    pages: Path = tmp_path_factory.mktemp("pages")
    write_pages(pages)
    story = Story("traced", BESIDE, pages, rates=CALM, node_rates=CALM_NODES)
    try:
        story.platform.add_node("a")
        with span("a person asks") as asked:
            story.create(MAIN, story.script)
        story.until_ended(MAIN)
        topics = {kind.topic for kind in every_event()}
        found = [record for topic in sorted(topics) for record in records(story.simulation.world.log, topic)]
    finally:
        story.close()
    return format(asked.get_span_context().trace_id, "032x"), found


def test_every_event_has_a_trace(told: tuple[str, list[Record]]) -> None:
    _, found = told
    assert found
    assert [record for record in found if not record.headers.get("traceparent")] == []


def test_what_came_of_a_run_shares_its_trace(told: tuple[str, list[Record]]) -> None:
    trace, found = told
    nodes = Node.DESCRIPTOR.full_name  # a node is there before the run and after it
    elsewhere = Counter(
        record.headers["ce_type"]
        for record in found
        if record.headers["ce_type"] != nodes and record.headers["traceparent"].split("-")[1] != trace
    )
    assert elsewhere == {}


def test_what_came_of_a_call_says_whose_it_was(told: tuple[str, list[Record]]) -> None:
    _, found = told
    runs = [record for record in found if record.key == MAIN]
    assert {record.headers.get("request_id") for record in runs} == {MAIN}
