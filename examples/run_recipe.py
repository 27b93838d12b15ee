"""Run a recipe on a running platform and follow its progress; killing this program does not stop the run.

python examples/run_recipe.py RECIPE [KEY=VALUE ...] [--data-dir DATA_DIR]
"""

import argparse
import sys
import uuid
from pathlib import Path

from tutti.client import Problem, connect
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED, State
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run


def main(recipe: Path, overrides: list[str], data_dir: Path) -> int:
    text = recipe.read_text()
    with connect(data_dir) as client:
        request = CreateRunRequest(
            request_id=uuid.uuid4().hex,
            recipe=text,
            overrides=overrides,
            directory=str(recipe.resolve().parent),
        )
        run = client.pipeline.CreateRun(request, timeout=60).run
        told: dict[str, str] = {}
        for snapshot in client.watch(run.name):
            assert isinstance(snapshot, Run)
            for stage in snapshot.stages:
                state = "reused" if stage.reused else State.Name(stage.state).removeprefix("STATE_").lower()
                if told.get(stage.name) != state:
                    told[stage.name] = state
                    print(f"{stage.name:14}{state:10}{stage.reason}".rstrip())
            if snapshot.state in (STATE_DONE, STATE_FAILED, STATE_CANCELLED):
                print(f"{run.name} {State.Name(snapshot.state)} {snapshot.reason}")
                return 0 if snapshot.state == STATE_DONE else 1
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run a recipe on a running platform and follow its progress.")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("overrides", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--data-dir", type=Path, default=Path(".tutti"))
    given = parser.parse_args()
    try:
        sys.exit(main(given.recipe, given.overrides, given.data_dir))
    except (OSError, Problem) as error:
        sys.exit(str(error))
