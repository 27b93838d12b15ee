"""The launcher: starts rank processes, forked from one fork server on CPUs, spawned on GPUs.

The fork server is started when the first rank needs it, and again when it died; ranks that it forked before go on.
"""

import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence

from tutti.contracts.trainer.v1 import RankMessage
from tutti.trainer.forkserver import FORK, NOTICE, PURE_THREADS, Notice
from tutti.trainer.framing import PolledChannel
from tutti.trainer.ports import LaunchError
from tutti.trainer.processes import ProcessId, kill, process_id, wait_until_gone


class StartedRank:
    """A rank behind a socket; its process is known as soon as the fork server told."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel: PolledChannel[RankMessage] = PolledChannel(sock, RankMessage)
        self.process: ProcessId | None = None
        self.exit_code: int | None = None
        self.doomed = False

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
        self.doomed = True
        if self.process is not None:
            kill(self.process)

    def close(self) -> None:
        self._channel.close()


class ProcessLauncher:
    """Starts real processes."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._expected: deque[StartedRank] = deque()
        self._ranks: list[StartedRank] = []
        self._spawned: dict[int, subprocess.Popen[bytes]] = {}
        self.threads_of_server = 0

    def launch(self, device: str) -> StartedRank:
        """Raises LaunchError."""
        self._sweep()
        own, theirs = socket.socketpair()
        rank = StartedRank(own)
        try:
            if device.startswith("cuda"):
                child = subprocess.Popen(
                    [sys.executable, "-m", "tutti.trainer.rank", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
                rank.process = process_id(child.pid)
                self._spawned[child.pid] = child
            else:
                control = self._serving()
                socket.send_fds(control, [FORK], [theirs.fileno()])
                self._expected.append(rank)
        except OSError as error:
            rank.close()
            raise LaunchError(f"no rank can be started: {error}") from error
        finally:
            theirs.close()
        self._ranks.append(rank)
        return rank

    def poll(self) -> None:
        """Take in what the fork server and spawned ranks have to tell."""
        for pid, child in list(self._spawned.items()):
            if (code := child.poll()) is not None:
                del self._spawned[pid]
                self._exited(pid, code)
        while self._control is not None and select.select([self._control], [], [], 0)[0]:
            try:
                data = self._control.recv(NOTICE.size)
            except ConnectionResetError:
                data = b""
            if len(data) != NOTICE.size:
                self._server_died()
                return
            self._notice(*NOTICE.unpack(data))

    def processes(self) -> Sequence[ProcessId]:
        return [process_id(self._server.pid)] if self._server is not None else []

    def filenos(self) -> Sequence[int]:
        control = [self._control.fileno()] if self._control is not None else []
        return control + [rank.fileno() for rank in self._ranks if not rank.ended]

    def close(self) -> None:
        for rank in self._ranks:
            rank.kill()
            rank.close()
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        for child in self._spawned.values():
            child.kill()
            child.wait()
        for rank in self._ranks:
            if rank.process is not None:
                wait_until_gone(rank.process, 5.0)

    def _serving(self) -> socket.socket:
        self.poll()
        if self._control is None:
            own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", "tutti.trainer.forkserver", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **PURE_THREADS},
                )
            finally:
                theirs.close()
            self._control = own
        return self._control

    def _notice(self, kind: int, first: int, second: int) -> None:
        match Notice(kind):
            case Notice.READY:
                self.threads_of_server = first
            case Notice.FORKED:
                rank = self._expected.popleft()
                rank.process = ProcessId(first, second)
                if rank.doomed:
                    rank.kill()
            case Notice.EXITED:
                self._exited(first, second)

    def _exited(self, pid: int, code: int) -> None:
        for rank in self._ranks:
            if rank.process is not None and rank.process.pid == pid and rank.exit_code is None:
                rank.exit_code = code

    def _server_died(self) -> None:
        """Ranks that were asked for will not come; those that run are told apart by their process."""
        assert self._server is not None
        assert self._control is not None
        self._control.close()
        self._server.kill()
        self._server.wait()
        self._control = self._server = None
        while self._expected:
            self._expected.popleft().exit_code = -signal.SIGKILL

    def _sweep(self) -> None:
        for rank in [rank for rank in self._ranks if rank.ended and rank.gone]:
            rank.close()
            self._ranks.remove(rank)
