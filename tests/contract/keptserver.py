"""A server of deploy/local that is started again whenever it is dead, as the keeper of a stack does.

    python tests/contract/keptserver.py NAME FOLDER

Prints its URL at each start, and on stderr why one failed; SIGTERM removes the server with its data.
"""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy" / "local"))

from processes import ServerError
from servers import Stack

from tutti.chassis.runtime.signals import Stop

LOOK_SECONDS = 0.5


def main() -> None:
    name, stack, over = sys.argv[1], Stack(Path(sys.argv[2])), Stop()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    while not over.wait(LOOK_SECONDS):
        try:
            if not stack.is_alive(name):
                stack.up([name], install=False)
                print(stack.status([name])[0].url, flush=True)
        except ServerError as error:
            print(error, file=sys.stderr, flush=True)
    stack.wipe([name])


if __name__ == "__main__":
    main()
