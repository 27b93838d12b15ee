"""`make assistant` in a fresh clone: time, memory, what is reused, and the same digests in a second data directory.

All stages, from the toy language to the signed releases, run in both directories. The time of `make setup`, from a warm
package cache, is given separately. With --quick, each stage has few steps: this checks the benchmark, not the models.
"""

from typing import Any

from benchmarks.clone import Clone, Done, Goals, clone, measured, stages_run
from benchmarks.program import WentWrong, main
from benchmarks.table import Row, at_least

GOALS = Goals(seconds=600.0, again_seconds=20.0)
DATA_DIR, ELSEWHERE = ".tutti", ".tutti-elsewhere"
QUICK = (
    "train.steps=2",
    "stages.prompts.split.train=0.96",
    "stages.prompts.split.campaign=0.02",
    "stages.prompts.split.final=0.02",
    "stages.tuned.steps=40",
    "stages.reward.epochs=1",
    "stages.grpo.steps=2",
    "stages.dpo.epochs=1",
)


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where a stage runs again that must not."""
    with clone() as here:
        setup = here.run("make", "setup")
        first, again = _first(here, quick), _first(here, quick)
        shown, elsewhere = _run(here, quick, DATA_DIR), _run(here, quick, ELSEWHERE)
        if repeated := stages_run(shown):
            raise WentWrong(f"the third time these stages ran: {repeated}; expected none")
    return [*measured("make assistant", GOALS, setup, first, again), _same(_digests(shown), _digests(elsewhere))]


def _first(here: Clone, quick: bool) -> Done:
    """The command of the README; quick: its parts, with few steps."""
    if not quick:
        return here.run("make", "assistant")
    here.python("-m", "tools.letters")
    return _carried_out(here, quick, DATA_DIR)


def _run(here: Clone, quick: bool, data_dir: str) -> Any:
    return _carried_out(here, quick, data_dir, "-o", "json").json()


def _carried_out(here: Clone, quick: bool, data_dir: str, *more: str) -> Done:
    few = [word for each in QUICK for word in ("--set", each)] if quick else []
    return here.tutti("run", "recipes/assistant.yaml", "--data-dir", data_dir, *few, *more)


def _digests(summary: Any) -> dict[str, str]:
    """The content digest of the result of each stage, by name."""
    return {stage["name"]: stage["content_digest"] for stage in summary["run"]["stages"]}


def _same(shown: dict[str, str], elsewhere: dict[str, str]) -> Row:
    other = [name for name, digest in shown.items() if elsewhere.get(name) != digest]
    return Row(
        what="the same digests in a second data directory",
        unit="stages",
        ours=len(shown) - len(other),
        goal=at_least(len(shown)),
        note=f"others: {', '.join(other)}" if other else f"the last, {list(shown)[-1]}: {list(shown.values())[-1]}",
    )


if __name__ == "__main__":
    main("assistant_run", __doc__, measure)
