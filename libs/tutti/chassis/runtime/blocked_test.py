"""The watch over loops that stand still."""

import gc
import logging
import re
import threading
import time

import pytest

from tutti.chassis.demo_test import eventually
from tutti.chassis.runtime.blocked import BlockedWatch
from tutti.chassis.runtime.frames import current_frames


class Answering:
    """The beat of an event loop that answers right after the watch has looked at it."""

    def __init__(self) -> None:
        self.name, self.ping = "event loop", None
        self.named_since = self.warned_since = None
        self.thread = threading.get_ident()
        self._looks = 0

    @property
    def since(self) -> float | None:
        self._looks += 1
        return time.monotonic() - 100 if self._looks == 1 else None


def test_a_loop_that_answers_while_it_is_named_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    watch = BlockedWatch(0.01)
    try:
        with caplog.at_level(logging.WARNING):
            with watch._lock:
                watch._beats.add(Answering())  # type: ignore[arg-type]
            eventually(lambda: "event loop has stood still" in caplog.text)
            with watch.step("another"):
                eventually(lambda: "another has stood still" in caplog.text)
            (after,) = [each for each in caplog.records if "another has" in each.getMessage()]
            assert int(re.search(r"still for (\d+) ms", after.getMessage())[1]) >= 100  # type: ignore[index]
    finally:
        watch.close()


def test_the_frames_of_threads_are_made_and_garbage_is_collected_as_before() -> None:
    assert current_frames()[threading.get_ident()].f_code is current_frames.__code__
    assert gc.isenabled()
    gc.disable()
    try:
        current_frames()
        assert not gc.isenabled()
    finally:
        gc.enable()
