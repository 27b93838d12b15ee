"""A container with a pair of Postgres servers: the primary, its synchronous standby, and the promoter that starts both.

Promises: the servers, their record and the promoter are those of deploy/local, so what is tested there holds here; a
promoter that died is started again within a second, and goes on from the record; SIGTERM stops the servers in order.
One container, because the promoter fences a former primary with SIGKILL, and no container may kill in another one.

    python databases.py FOLDER SECRETS      # serves at the ports 5432 and 5433 until SIGTERM
"""

import signal
import sys
from pathlib import Path

from layout import Layout
from processes import ServerError, tell
from promoted import Promoter
from servers import Stack

from tutti.chassis.runtime.signals import Stop

PORTS = [5432, 5433]
LOOK_SECONDS = 1.0


def serve(folder: Path, secrets: Path, stop: Stop) -> None:
    """Raises ServerError when the promoter cannot be started."""
    password, standby = ((secrets / name).read_text() for name in ("password", "standby"))
    Layout([], [], PORTS, "", password, standby, listen="*").write(folder)
    stack = Stack(folder, cache=folder / "cache")
    try:
        while not stop.is_set():
            if not stack.is_alive(Promoter.name):
                tell("starts the promoter")
                stack.launch(Promoter.name)
            stop.wait(LOOK_SECONDS)
    finally:
        stack.down([Promoter.name, *stack.promoted])


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        tell("expected FOLDER SECRETS")
        return 2
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        serve(Path(arguments[0]), Path(arguments[1]), stop)
    except ServerError as error:
        tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
