"""The entry point of a container: `python -m tutti.chassis.runtime.container MODULE [ARGUMENT …]` runs one program.

Promises: SIGTERM and SIGINT reach the program even while it starts (the kernel drops signals for which PID 1 has no
handler); orphaned processes are reaped; a program that stops sending heartbeats writes its stacks to stderr and is
killed, so the container exits and its restart policy applies. The exit code is the program's, or 128 + N after
signal N. It stays in memory as long as the container runs, so it imports little; it needs no installed library, so it
can be run by `python -S`.

`--check PART` is the health check of a service or an agent: exit code 0 if healthy, else 1 with the reason.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Sequence

from tutti.chassis.config.exits import FAILED, MISUSE, say
from tutti.chassis.runtime.leash import EXAMINE, Leash
from tutti.chassis.runtime.patience import Patience

FIRST_WORD_SECONDS = 60.0
SILENCE_SECONDS = 30.0
LOOK_SECONDS = 1.0
EXAMINE_SECONDS = 1.0  # for a program that hangs to write down where
STOPS = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    if len(arguments) == 2 and arguments[0] == "--check":
        return _check(arguments[1])
    if not arguments or arguments[0].startswith("-"):
        return say("expected MODULE [ARGUMENT ...], such as tutti.scheduler, or --check PART", MISUSE)
    return _Keeper([sys.executable, "-m", *arguments]).run()


def _check(part: str) -> int:
    from pathlib import Path  # a check ends at once; the entry point does without

    from tutti.chassis.runtime import healthfile

    folder = Path(os.environ.get("TUTTI_DATA_DIR", ".tutti"))
    reason = healthfile.trouble(healthfile.health_path(folder, part))
    print(reason or "healthy")
    return FAILED if reason else 0


class _Keeper:
    def __init__(self, command: Sequence[str]) -> None:
        self._wake, waker = os.pipe()
        for end in (self._wake, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker)
        for number in (*STOPS, signal.SIGCHLD):
            signal.signal(number, self._signalled)
        self._stop: int | None = None
        self._told = False
        self._leash = Leash()
        self._name = " ".join(command[2:])
        os.set_inheritable(self._leash.descriptor, True)
        # Python ignores SIGPIPE and SIGXFSZ; the program starts as from a shell.
        self._program = os.posix_spawn(
            command[0], list(command), self._leash.environment(), setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
        )
        self._leash.given()

    def run(self) -> int:
        patience, spoken = Patience(FIRST_WORD_SECONDS, time.monotonic()), False
        while (code := self._reap()) is None:
            select.select([self._wake], [], [], LOOK_SECONDS)
            while self._drained():
                pass
            if self._stop is not None and not self._told:
                self._told = True
                os.kill(self._program, self._stop)
            now, heard = time.monotonic(), self._leash.heard()
            if heard and not spoken:
                patience, spoken = Patience(SILENCE_SECONDS, now), True
            if not self._told and patience.over(now, heard=heard):
                self._give_up(SILENCE_SECONDS if spoken else FIRST_WORD_SECONDS)
        return code

    def _reap(self) -> int | None:
        """Take in every process that ended; the exit code once the program is among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return FAILED
            if pid == 0:
                return None
            if pid == self._program:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code

    def _give_up(self, seconds: float) -> None:
        say(f"{self._name}: no heartbeat for {seconds:g} s; killed", FAILED)
        os.kill(self._program, EXAMINE)
        time.sleep(EXAMINE_SECONDS)
        os.kill(self._program, signal.SIGKILL)
        self._told = True

    def _drained(self) -> bool:
        try:
            return bool(os.read(self._wake, 64))
        except BlockingIOError:
            return False

    def _signalled(self, number: int, _frame: object) -> None:
        if number in STOPS:
            self._stop = number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
