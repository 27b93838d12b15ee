"""Replicas as child processes.

Promises: a child ends with its parent, even if that is killed; its address is known only once it serves; one that hangs
is known by its silence; the output of each is in a log of its own.
"""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tutti.chassis.config.datadir import DataDir
from tutti.chat.names import announced
from tutti.platform import interpreter
from tutti.platform.heartbeatpipe import HeartbeatPipe
from tutti.platform.heartbeattimeout import HeartbeatTimeout
from tutti.platform.processes import ProcessId, gone, process_id

PLAIN = ("tls.certificate=", "tls.key=", "tls.ca=", "tls.clients=token")
"""A child listens on loopback and is called by its parent alone, so it speaks no TLS, whatever the settings say."""

SILENCE_SECONDS = 30.0
"""A child that serves sends a heartbeat each second; one that is silent for so long hangs, or was stopped."""


class ReplicaChild:
    """One process; it starts when this is made. `arguments` are more of its command line."""

    def __init__(self, data_dir: DataDir, name: str, checkpoint: Path, arguments: Sequence[str] = ()) -> None:
        self._data_dir, self._part, self._pipe = data_dir, announced(name), HeartbeatPipe()
        data_dir.remove(f"endpoints/{self._part}")  # a replica that was killed has left it
        given = ["--data-dir", str(data_dir.path), "--name", name, "--checkpoint", str(checkpoint), *arguments]
        given += [part for each in PLAIN for part in ("--set", each)]
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
        self._heard = False
        self._timeout: HeartbeatTimeout | None = None
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
        self._heard |= bool(self._pipe.heard())
        return "" if self.exit_code is not None else self._data_dir.announced(self._part)

    def hangs(self, now: float) -> bool:
        """True once it was silent for SILENCE_SECONDS since it served; ask often. `now` is of a monotonic clock."""
        if not self.address:
            return False
        heard, self._heard = self._heard, False
        self._timeout = self._timeout or HeartbeatTimeout(SILENCE_SECONDS, now)
        return self._timeout.over(now, heard=heard)

    def ask_to_end(self) -> None:
        self.id.signal_group(signal.SIGTERM)

    def end(self, seconds: float) -> None:
        """Ask it to end, and kill it after `seconds`."""
        self.ask_to_end()
        if not gone(self.id, seconds):
            self.id.signal_group(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()
