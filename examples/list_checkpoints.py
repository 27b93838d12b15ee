"""List the committed checkpoints of a platform, with the two digests of each state.

python examples/list_checkpoints.py [--data-dir DATA_DIR]
"""

import argparse
import sys
from pathlib import Path

from tutti.client import Problem, connect
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_COMMITTED, Checkpoint
from tutti.contracts.common.v1 import ListRequest


def main(data_dir: Path) -> None:
    with connect(data_dir) as client:
        found, token = list[Checkpoint](), ""
        while True:
            page = client.committer.ListCheckpoints(ListRequest(page_token=token))
            found += [each for each in page.checkpoints if each.state == CHECKPOINT_STATE_COMMITTED]
            token = page.next_page_token
            if not token:
                break
    for each in sorted(found, key=lambda each: (each.job, each.line, each.step)):
        print(f"{each.name}  model {each.model_digest}  state {each.state_digest}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="List the committed checkpoints of a platform.")
    parser.add_argument("--data-dir", type=Path, default=Path(".tutti"))
    try:
        main(parser.parse_args().data_dir)
    except Problem as problem:
        sys.exit(f"{problem.reason}: {problem.message}")
