"""The I/O child for a simulation: its real work, without a process of its own."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tutti.backbone import Blobs, Clock
from tutti.backbone.files import Files
from tutti.contracts.trainer.v1 import IoMessage
from tutti.platform.processes import ProcessId
from tutti.trainer.io.iochild import IoChild


class SimulatedIoLink:
    """The real work of an I/O child, on the agent's own thread."""

    def __init__(
        self,
        make_blobs: Callable[[], Blobs],
        files: Files,
        clock: Clock,
        *,
        node: str,
        state: Path,
        buffers: Path,
        spool: int = 4,
    ) -> None:
        self.restarts, self.fate = 0, ""
        self._make_blobs, self._files, self._clock = make_blobs, files, clock
        self._node, self._state, self._buffers, self._spool = node, state, buffers, spool
        self._said: list[IoMessage] = []
        self._child = self._start()

    def _start(self) -> IoChild:
        return IoChild(
            self._make_blobs(),
            self._files,
            self._clock,
            node=self._node,
            state=self._state,
            buffers=self._buffers,
            spool=self._spool,
            say=self._said.append,
        )

    def crash(self) -> None:
        """The child dies with what it had not said; another takes over."""
        self._said.clear()
        self._child = self._start()
        self.restarts += 1
        self.fate = f"I/O child {self.restarts} crashed"

    def send(self, message: IoMessage) -> None:
        self._child.take(message)

    def receive(self) -> list[IoMessage]:
        for lane in self._child.lanes:
            lane()
        found = list(self._said)
        self._said.clear()
        return found

    def processes(self) -> Sequence[ProcessId]:
        return []

    def filenos(self) -> Sequence[int]:
        return []

    def close(self) -> None:
        self._said.clear()
