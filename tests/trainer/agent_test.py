"""Real agents, I/O children and ranks over the real message protocol."""

from collections.abc import Callable
from typing import Any

from tutti.contracts.scheduler.v1 import RANK_EVENT_FINISHED


def test_one_rank_trains_and_its_snapshots_are_stored(stage: Any, wait: Callable[..., None]) -> None:
    stage.agent()
    training = stage.training()
    stage.plane.assign("a", stage.assignment(training))
    wait(lambda: stage.plane.events(RANK_EVENT_FINISHED) or stage.plane.losses)
    assert not stage.plane.losses, stage.plane.losses
    wait(lambda: len(stage.plane.shards) == 3)
    assert sorted(stage.plane.reports()) == [(2, 1, 0), (4, 1, 0), (6, 1, 0)]
