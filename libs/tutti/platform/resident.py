"""The resident process: one worker whose memory is kept from call to call, such as models that were loaded.

Promises: one function at a time, further callers wait; a call that is cancelled ends at the function's next word of
progress and the memory stays; a process that is lost (killed, stopped by a signal, silent for too long) is named in the
error, killed, and replaced at the next call. It ends with its parent, and after a time without calls.
"""

import logging
from pathlib import Path

from tutti.platform.pool import ProcessPool, WorkerDied
from tutti.platform.workers import Lost, Worker

ABANDON_SECONDS = 3.0
"""The time that a cancelled function has to end before its process is killed."""
_log = logging.getLogger(__name__)


class Resident(ProcessPool):
    """`name` is in errors, in the log and in the list of processes."""

    def __init__(self, name: str, *, idle_seconds: float, silence_seconds: float, scratch: Path | None = None) -> None:
        super().__init__(1, idle_seconds=idle_seconds, scratch=scratch)
        self.name, self.silence_seconds = name, silence_seconds

    def ended_early(self, worker: Worker) -> bool:
        return worker.abandon(ABANDON_SECONDS)

    def _new_worker(self) -> Worker:
        worker = super()._new_worker()
        _log.info("the resident process %s is started as process %d", self.name, worker.pid)
        return worker

    def _died(self, worker: Worker, did: str, name: str, lost: Lost) -> WorkerDied:
        words = f"the resident process {self.name} (process {worker.pid}) that {did} {name} {lost}"
        _log.warning("%s; the next call starts another one", words)
        return WorkerDied(words)
