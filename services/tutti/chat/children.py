"""Replicas as child processes.

Promises: a child ends with its parent, even if that is killed; its address is known only once it serves; the output of
each is in a log of its own.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tutti.chassis.config.datadir import DataDir
from tutti.chat.names import announced
from tutti.platform import interpreter
from tutti.platform.heartbeatpipe import HeartbeatPipe
from tutti.platform.processes import ProcessId, gone, process_id


class ReplicaChild:
    """One process; it starts when this is made. `arguments` are more of its command line."""

    def __init__(self, data_dir: DataDir, name: str, checkpoint: Path, arguments: Sequence[str] = ()) -> None:
        self._data_dir, self._part, self._pipe = data_dir, announced(name), HeartbeatPipe()
        data_dir.remove(f"endpoints/{self._part}")  # a replica that was killed has left it
        given = ["--data-dir", str(data_dir.path), "--name", name, "--checkpoint", str(checkpoint), *arguments]
        with open(self.log, "ab") as output:
            self._process = interpreter.start(
                interpreter.module("tutti.chat.replica", *given),
                self._pipe.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[self._pipe.descriptor],
                start_new_session=True,
            )
        self._pipe.given()
        self.id: ProcessId = process_id(self._process.pid)

    @property
    def log(self) -> Path:
        return self._data_dir.path / "logs" / f"{self._part}.log"

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def address(self) -> str:
        """The address of its server; empty until it serves, and after it has ended."""
        self._pipe.heard()
        return "" if self.exit_code is not None else self._data_dir.announced(self._part)

    def end(self, seconds: float) -> None:
        """Ask it to end, and kill it after `seconds`."""
        self.id.signal_group(signal.SIGTERM)
        if not gone(self.id, seconds):
            self.id.signal_group(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()
