"""The `tutti` command: thin, over the gRPC APIs.

Promises: exit codes 0 done, 1 failed, 2 misuse, 3 not reachable, 130 interrupted; never a traceback for a mistake.
"""

import sys

from tutti.platform.garbage import kept

INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    try:
        with kept():
            from tutti.cli.app import run  # so that importing the package costs nothing

        run()
    except KeyboardInterrupt:  # while modules are loaded: nobody else looks after it yet
        print("tutti: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
