"""Durations: of a run from its start to its end, whatever its stages took."""

from google.protobuf.timestamp_pb2 import Timestamp

from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.report.durations import seconds

NOW = 1_030.0


def at(moment: int) -> Timestamp:
    return Timestamp(seconds=moment)


def a_run(*, ended: bool) -> Run:
    """A run that waited for 10 s between its stages, of which it reused the first one."""
    end = at(1020) if ended else None
    stages = [
        Stage(name="ingest", started_at=at(1000), ended_at=at(1001), reused=True),
        Stage(name="dedup", started_at=at(1001), ended_at=at(1005)),
        Stage(name="train", started_at=at(1015), ended_at=end),
    ]
    return Run(name="runs/a", stages=stages, started_at=at(1000), ended_at=end)


def test_a_run_took_the_time_from_its_start_to_its_end_and_a_stage_none_if_it_was_reused() -> None:
    run = a_run(ended=True)
    assert seconds(run) == seconds(run, NOW) == 20.0
    assert [seconds(each) for each in run.stages] == [0.0, 4.0, 5.0]


def test_without_an_end_it_lasts_until_now() -> None:
    run = a_run(ended=False)
    assert (seconds(run, NOW), seconds(run)) == (30.0, 0.0)
    assert seconds(run, 1.0) == seconds(Run(), NOW) == 0.0
