"""The journal of an agent: which processes it started, and which attempts it began.

The next incarnation reads it first: it ends what is left of the processes, and never begins an attempt a second time.
"""

import json
import logging
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tutti.backbone.files import Files, overwrite
from tutti.platform.processes import ProcessId, gone

log = logging.getLogger(__name__)

_BEGUN = 256


@dataclass(frozen=True)
class Record:
    """The content of the journal."""

    processes: tuple[ProcessId, ...] = ()
    begun: tuple[tuple[str, int], ...] = ()


class Journal:
    """One file, overwritten durably; a damaged one is read as empty, and says so."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path, self._files = path, files
        self.record = self._read()

    def processes(self, processes: Iterable[ProcessId]) -> None:
        """Record what is to be killed if this agent dies."""
        wanted = tuple(sorted(set(processes), key=lambda each: (each.pid, each.started)))
        if wanted != self.record.processes:
            self._write(Record(wanted, self.record.begun))

    def begin(self, job: str, epoch: int) -> bool:
        """Record that the attempt begins here; False when it was begun before."""
        if (job, epoch) in self.record.begun:
            return False
        self._write(Record(self.record.processes, (*self.record.begun, (job, epoch))[-_BEGUN:]))
        return True

    def kill_orphans(self, seconds: float = 10.0) -> int:
        """End what a former incarnation left running; how many there were. Raises RuntimeError if one remains."""
        orphans = [process for process in self.record.processes if process.alive()]
        for process in orphans:
            log.warning("process %d of a former agent of this node still runs and is killed", process.pid)
            process.send(signal.SIGKILL)
        for process in orphans:
            if not gone(process, seconds):
                raise RuntimeError(
                    f"process {process.pid} of a former agent does not end within {seconds:g} s of SIGKILL; "
                    "its devices cannot be used: end it, or restart the machine"
                )
        self.processes(())
        return len(orphans)

    def _read(self) -> Record:
        try:
            value = json.loads(self._files.read(self._path))
            return Record(
                tuple(ProcessId(int(pid), int(started)) for pid, started in value["processes"]),
                tuple((str(job), int(epoch)) for job, epoch in value["begun"]),
            )
        except FileNotFoundError:
            return Record()
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s is damaged (%s): orphans of the former agent are unknown", self._path, error)
            return Record()

    def _write(self, record: Record) -> None:
        content = json.dumps(
            {"processes": [[each.pid, each.started] for each in record.processes], "begun": record.begun}
        )
        overwrite(self._files, self._path.with_suffix(".tmp"), self._path, [content.encode()])
        self.record = record
