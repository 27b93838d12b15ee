"""The fork server: a process that has torch imported, and from which ranks are forked on CPUs.

It has one thread, no CUDA context and no grpc, so a fork is safe and takes milliseconds instead of the seconds of an
import. It ends when its agent does; its ranks notice that by themselves.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from enum import IntEnum

from tutti.platform.garbage import kept
from tutti.platform.processes import process_id

NOTICE = struct.Struct("<Bqq")
FORK = b"F"
PURE_THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCH_FR_BUFFER_SIZE": "64",
}
"""The environment in which importing torch starts no thread; a rank sets its own number by the recipe."""


class Notice(IntEnum):
    """The messages of the fork server; NOTICE packs one with two numbers."""

    READY = 0
    FORKED = 1
    """pid, start time"""
    EXITED = 2
    """pid, exit code as subprocess counts: negative for a signal"""


def serve(control: socket.socket, run: Callable[[socket.socket], int]) -> None:
    """Fork `run(sock)` for each socket that arrives, tell of each end; return when the other side is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # To a whole process group; the agent alone decides when its ranks end.
        signal.signal(number, signal.SIG_IGN)
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()
    _say(control, Notice.READY, len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1, 0)
    while True:
        readable, _, _ = select.select([control, wake], [], [])
        if wake in readable:
            wake.recv(4096)
            _reap(control)
        if control in readable:
            data, descriptors, _, _ = socket.recv_fds(control, 16, 1)
            if not data:
                return
            _fork(control, socket.socket(fileno=descriptors[0]), [control, wake, waker], run)


def _fork(
    control: socket.socket, given: socket.socket, own: list[socket.socket], run: Callable[[socket.socket], int]
) -> None:
    pid = os.fork()
    if pid:
        given.close()
        _say(control, Notice.FORKED, pid, process_id(pid).started)
        return
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for sock in own:
            sock.close()
        code = run(given)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _reap(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _say(control, Notice.EXITED, pid, os.waitstatus_to_exitcode(status))


def _say(control: socket.socket, notice: Notice, first: int, second: int) -> None:
    control.send(NOTICE.pack(notice, first, second))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    with kept():
        from tutti.trainer.rank import rank

        rank.preload()
    with contextlib.suppress(ConnectionError):  # the agent is gone in the middle of a word
        serve(control, rank.main)


if __name__ == "__main__":
    main()
