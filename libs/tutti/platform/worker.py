"""The program of a pool's worker: functions in, results out, over one socket.

Promises: it ends when its parent does, and by itself when it has been idle for long; it imports nothing but what the
functions need; what a function says of its progress comes before its result. A function that the parent abandons ends
where it next reports its progress.
"""

import os
import pickle
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection

from tutti.chassis import progress
from tutti.platform.garbage import collect_seldom

ABANDON = b"abandon"
"""The message of a parent that does not want the result any more."""


def serve(connection: Connection, idle_seconds: float) -> None:
    while connection.poll(idle_seconds):
        request = connection.recv_bytes()
        if request == ABANDON:  # its function had returned before the message came
            continue
        connection.send_bytes(b"taken")
        progress.listen(lambda said: report(connection, said))
        packed = answer(request)
        progress.listen(None)
        connection.send_bytes(packed)


def report(connection: Connection, said: progress.Progress) -> None:
    """Raises Abandoned."""
    connection.send_bytes(pickle.dumps(said))
    if connection.poll(0):
        raise progress.Abandoned


def answer(request: bytes) -> bytes:
    """(True, result) or (False, exception), pickled."""
    try:
        fn, args, kwargs = pickle.loads(request)  # noqa: S301 - from our own parent
        return pickle.dumps((True, fn(*args, **kwargs)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        try:
            packed = pickle.dumps((False, error), protocol=pickle.HIGHEST_PROTOCOL)
            pickle.loads(packed)  # noqa: S301 - some exceptions pickle and do not come back
        except Exception:
            packed = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return packed


def follow(parent: int) -> None:
    """End with the parent, even inside a long function."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_seldom()  # importing torch, as many functions do, makes 200,000 objects that are kept
    threading.Thread(target=follow, args=(os.getppid(),), daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    try:
        serve(connection, float(sys.argv[2]))
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    main()
