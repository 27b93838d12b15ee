"""Meters: a rank's own parts with clocks at their seams.

Promises: what is measured is the product's loop and step; a meter only notes times between its calls.
"""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tutti.contracts.trainer.v1 import BufferFree, Heartbeat, RankMessage
from tutti.model.batch import LeafBatch
from tutti.model.results import StepResult
from tutti.model.step import RankStep
from tutti.model.vote import Verdict
from tutti.trainer.framing import BlockingChannel
from tutti.trainer.lifeline import Lifeline

HEARTBEAT_SECONDS = 1.0


class MeteredStep(RankStep):
    """Notes when the vote was entered and left, and runs `after` (a peer, say) behind each step."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.votes: list[tuple[float, float]] = []
        self.results: list[StepResult] = []
        self.seconds: list[float] = []
        self.ended = 0.0
        self.after: Callable[[], None] = lambda: None

    def run(
        self, step: int, leaves: Mapping[int, LeafBatch], fetch: Callable[[int], LeafBatch] | None = None
    ) -> StepResult:
        started = time.perf_counter()
        result = super().run(step, leaves, fetch)
        self.seconds.append(time.perf_counter() - started)
        self.results.append(result)
        self.after()
        self.ended = time.perf_counter()
        return result

    def _vote(self, *given: Any) -> Verdict:
        entered = time.perf_counter()
        verdict = super()._vote(*given)
        self.votes.append((entered, time.perf_counter()))
        return verdict

    @property
    def sent_bytes(self) -> int:
        """What this rank sends to others in one reduction."""
        spans = [span for other, found in enumerate(self._spans) if other != self.rank for span in found]
        return 4 * sum(span.length for span in spans) * len(self.plan.nodes_of(self.rank))


class MeteredLifeline(Lifeline):
    """Notes, for each step, what passed between its end and the next one's reading, apart from `at_boundary`."""

    def __init__(self, channel: BlockingChannel[RankMessage], step: MeteredStep, **named: Any) -> None:
        super().__init__(channel, **named)
        self._metered = step
        self.talk: list[float] = []
        """Seconds a step: asking whether to stop, building the progress message, sending it."""
        self.stalls: list[float] = []
        """Seconds from the progress message to the next step boundary: the snapshot, where one is due."""
        self.stalls_on_a_core: list[float] = []
        self.at_boundary: Callable[[], None] = lambda: None
        self._checked = self._told = self._told_on_a_core = 0.0

    def check_stop(self) -> None:
        if self._told:
            self.stalls.append(time.perf_counter() - self._told)
            self.stalls_on_a_core.append(time.thread_time() - self._told_on_a_core)
        self.at_boundary()
        started = time.perf_counter()
        super().check_stop()
        self._checked = time.perf_counter() - started

    def send(self, message: RankMessage) -> None:
        super().send(message)
        if message.WhichOneof("body") == "progress":
            self._told, self._told_on_a_core = time.perf_counter(), time.thread_time()
            self.talk.append(self._checked + self._told - self._metered.ended)


class Companion:
    """The other end of a lifeline: keeps it alive, gives snapshot buffers back at once."""

    def __init__(self, channel: BlockingChannel[RankMessage]) -> None:
        self._channel = channel
        self._thread = threading.Thread(target=self._run, name="companion", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the other end was closed."""
        self._thread.join()

    def _run(self) -> None:
        beat_at = 0.0
        while True:
            try:
                message = self._channel.receive(HEARTBEAT_SECONDS / 2)
                if time.monotonic() - beat_at >= HEARTBEAT_SECONDS:
                    beat_at = time.monotonic()
                    self._channel.send(RankMessage(heartbeat=Heartbeat()))
                if message is not None and message.WhichOneof("body") == "snapshot":
                    self._channel.send(RankMessage(buffer_free=BufferFree(buffer=message.snapshot.buffer)))
            except (EOFError, OSError):
                return


def seconds_on_a_core(thread: str) -> float:
    """Of the thread of this process with this name, by the scheduler's own account."""
    ids = [each.native_id for each in threading.enumerate() if each.name == thread]
    return sum(int(Path(f"/proc/self/task/{id}/schedstat").read_text().split()[0]) for id in ids) / 1e9
