"""The launcher: starts rank processes, forked from a server on CPUs, spawned on GPUs.

A rank is a socket first; its process is known as soon as the server told.
"""

import signal
import socket
import subprocess
from collections.abc import Sequence

from tutti.contracts.trainer.v1 import RankMessage
from tutti.model.device import is_gpu
from tutti.platform import interpreter
from tutti.platform.processes import ProcessId, gone, process_id
from tutti.trainer.agent.forkclient import ForkClient
from tutti.trainer.agent.ports import LaunchError
from tutti.trainer.framing import PolledChannel


class StartedRank:
    """A rank behind a socket; its process is known as soon as the fork server told."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel: PolledChannel[RankMessage] = PolledChannel(sock, RankMessage)
        self.process: ProcessId | None = None
        self.exit_code: int | None = None
        self.server_exit_code: int | None = None
        self._doomed = False

    def fileno(self) -> int:
        return self._channel.fileno()

    def send(self, message: RankMessage) -> None:
        self._channel.send(message)

    def receive(self) -> list[RankMessage]:
        return self._channel.receive()

    @property
    def ended(self) -> bool:
        return self._channel.ended

    @property
    def gone(self) -> bool:
        if self.exit_code is not None:
            return True
        return self.process is not None and not self.process.alive()

    def kill(self) -> None:
        self._doomed = True
        if self.process is not None:
            self.process.send(signal.SIGKILL)

    def started(self, process: ProcessId) -> None:
        self.process = process
        if self._doomed:
            process.send(signal.SIGKILL)

    def exited(self, code: int) -> None:
        self.exit_code = code

    def orphaned(self, server_exit_code: int | None) -> None:
        self.server_exit_code = server_exit_code

    def close(self) -> None:
        self._channel.close()


class ProcessLauncher:
    """Starts real processes. A `server` that is given is shared with others and outlives this launcher."""

    def __init__(self, server: ForkClient | None = None) -> None:
        self.server = server or ForkClient()
        self._owns_server = server is None
        self._ranks: list[StartedRank] = []
        self._spawned: list[tuple[subprocess.Popen[bytes], StartedRank]] = []

    def launch(self, device: str) -> StartedRank:
        """Raises LaunchError."""
        self._sweep()
        own, theirs = socket.socketpair()
        rank = StartedRank(own)
        try:
            if is_gpu(device):
                child = interpreter.start(
                    interpreter.module("tutti.trainer.rank.rank", str(theirs.fileno())),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
                rank.started(process_id(child.pid))
                self._spawned.append((child, rank))
            else:
                self.server.fork(theirs, rank)
        except OSError as error:
            rank.close()
            raise LaunchError(f"no rank can be started: {error}") from error
        finally:
            theirs.close()
        self._ranks.append(rank)
        return rank

    def poll(self) -> None:
        """Take in what the fork server and spawned ranks have to tell."""
        for child, rank in list(self._spawned):
            if (code := child.poll()) is not None:
                self._spawned.remove((child, rank))
                rank.exited(code)
        self.server.poll()

    def processes(self) -> Sequence[ProcessId]:
        return self.server.processes() if self._owns_server else []

    def filenos(self) -> Sequence[int]:
        return [*self.server.filenos(), *(rank.fileno() for rank in self._ranks if not rank.ended)]

    def close(self) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.close()
        if self._owns_server:
            self.server.close()
        for child, _ in self._spawned:
            child.kill()
            child.wait()
        for rank in self._ranks:
            if rank.process is not None:
                gone(rank.process, 5.0)

    def _sweep(self) -> None:
        for rank in [rank for rank in self._ranks if rank.ended and rank.gone]:
            rank.close()
            self._ranks.remove(rank)
