"""Opening an epoch: one read-back, however often it is asked for."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tutti.backbone.blobs import Blobs
from tutti.chassis.errors import Unavailable
from tutti.committer import opening
from tutti.committer.rehearsal_test import Rehearsal
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED

PATIENCE = 20.0


class SlowBlobs:
    """Blobs that hold manifests back until they are let go; counts who asked for one."""

    def __init__(self, port: Blobs) -> None:
        self._port = port
        self.reads: Counter[str] = Counter()
        self.reached, self.let_go = Event(), Event()
        self.let_go.set()

    def get(self, key: str) -> bytes:
        if key.startswith("committer/manifests/"):
            self.reads[key] += 1
            self.reached.set()
            assert self.let_go.wait(PATIENCE)
        return self._port.get(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


@pytest.fixture
def slow(tmp_path: Path) -> tuple[Rehearsal, SlowBlobs]:
    found: list[SlowBlobs] = []

    def wrap(port: Blobs) -> Any:
        found.append(SlowBlobs(port))
        return found[-1]

    world = Rehearsal(tmp_path, wrap_blobs=wrap)
    world.open_epoch(1, 2)
    world.snapshot(5, dp=2, epoch=1)
    world.settle()
    assert world.checkpoint(5).state == CHECKPOINT_STATE_COMMITTED
    blobs = found[-1]
    blobs.reads.clear()
    blobs.reached.clear()
    blobs.let_go.clear()
    return world, blobs


def together(first: Callable[[], Any], reached: Event, then: Callable[[], Any]) -> tuple[Any, Any]:
    """The first on a thread of its own, the second when the first has come so far."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(first)
        assert reached.wait(PATIENCE)
        return then(), running.result(PATIENCE)


def test_who_asks_again_while_the_resume_point_is_read_back_is_told_to_wait_and_reads_nothing(
    slow: tuple[Rehearsal, SlowBlobs], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, blobs = slow
    monkeypatch.setattr(opening, "JOIN_SECONDS", 0.05)

    def again() -> None:
        try:
            with pytest.raises(Unavailable, match="is being read back"):
                world.open_epoch(2, 2)
        finally:
            blobs.let_go.set()

    _, answer = together(lambda: world.open_epoch(2, 2), blobs.reached, again)
    assert answer.step == 5
    assert world.open_epoch(2, 2) == answer
    assert set(blobs.reads.values()) == {1}
    world.close()


def test_who_asks_again_gets_the_answer_of_the_one_read_back(slow: tuple[Rehearsal, SlowBlobs]) -> None:
    world, blobs = slow

    def again() -> Any:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(lambda: world.open_epoch(2, 2))
            blobs.let_go.set()
            return asked.result(PATIENCE)

    second, first = together(lambda: world.open_epoch(2, 2), blobs.reached, again)
    assert first == second
    assert first.step == 5
    assert set(blobs.reads.values()) == {1}
    world.close()
