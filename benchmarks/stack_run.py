"""`make run-stack` in a fresh clone: the states of the embedded run, on Kafka, Postgres and S3, and when these die.

The same recipe three times, each in a data directory of its own: embedded, on the stack, and on a stack whose broker,
database and blob store are each killed with SIGKILL once while it trains. With --quick the tiny recipe.
"""

import re
from typing import Any

from benchmarks.clone import checkpoints, clone
from benchmarks.program import WentWrong, main
from benchmarks.table import Row, at_least

STACK = "deploy/local/stack.py"
KILLS = {"s3": 60, "kafka": 140, "postgres": 220}
"""After which step each is killed; checkpoints are due every 50."""
KILLS_QUICK = {"s3": 2, "kafka": 5, "postgres": 9}


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where a server was not killed, or not started again."""
    recipe, kills = ("tiny", KILLS_QUICK) if quick else ("spine", KILLS)
    run = ("run", f"recipes/{recipe}.yaml", "-o", "json")
    with clone() as here:
        here.run("make", "setup")
        here.python("tools/exhibit.py")
        obtained = here.python("deploy/local/servers.py", "obtain")
        embedded = checkpoints(here.tutti(*run).json())
        stack = here.python(STACK, *run) if quick else here.run("make", "run-stack")
        shown = here.python(STACK, *run)
        killing = [part for name, step in kills.items() for part in ("--kill", f"{name}@{step}")]
        killed = here.python(STACK, *run, "--data-dir", "build/stack-killed", *killing)
    dead = re.findall(r"^killed (\w+) \(pid \d+\) after \d+$", killed.err, re.MULTILINE)
    if sorted(dead) != sorted(kills):
        raise WentWrong(f"killed were {dead}, expected {sorted(kills)}\n{killed.err}")
    last = max(embedded)
    return [
        Row(
            what="make run-stack in a fresh clone",
            unit="s",
            ours=stack.seconds,
            note=f"at most {stack.peak_mib:,.0f} MiB (sum of PSS); obtaining the servers took {obtained.seconds:.0f} s",
        ),
        _row("the states of the embedded run on the stack", embedded, shown.json(), f"step {last}: {embedded[last]}"),
        _row("the same with each server killed", embedded, killed.json(), f"{killed.seconds:.0f} s; {_told(kills)}"),
    ]


def _row(what: str, expected: dict[int, str], summary: Any, note: str) -> Row:
    seen = checkpoints(summary)
    same = sum(seen.get(step) == digest for step, digest in expected.items())
    return Row(what=what, unit="checkpoints", ours=same, goal=at_least(len(expected)), note=note)


def _told(kills: dict[str, int]) -> str:
    return ", ".join(f"{name} after step {step}" for name, step in kills.items())


if __name__ == "__main__":
    main("stack_run", __doc__, measure)
