"""Print each snapshot of a run until it ends.

python examples/follow_run.py RUN [--data-dir DATA_DIR]
"""

import argparse
import sys
from pathlib import Path

from tutti.client import Problem, connect
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, State
from tutti.contracts.pipeline.v1 import Run


def main(name: str, data_dir: Path) -> int:
    with connect(data_dir) as client:
        for snapshot in client.watch(name):
            assert isinstance(snapshot, Run)
            print(f"{snapshot.name}  revision {snapshot.revision}  {State.Name(snapshot.state)}", flush=True)
            if snapshot.state in (STATE_DONE, STATE_FAILED, STATE_CANCELLED):
                return 0
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print each snapshot of a run until it ends.")
    parser.add_argument("run")
    parser.add_argument("--data-dir", type=Path, default=Path(".tutti"))
    given = parser.parse_args()
    try:
        sys.exit(main(given.run, given.data_dir))
    except (OSError, Problem) as error:
        sys.exit(str(error))
