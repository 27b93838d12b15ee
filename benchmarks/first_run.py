"""`make run` in a fresh clone, as somebody new to Tutti meets it: time, memory, quality, and what is reused after.

Once in a new tree, once more, in a second data directory whose pages four processes read, in a third where one does,
with other steps, and with blobs deleted. The packages come from a cache that is warm (`make setup` is told apart). With
--quick the tiny recipe instead, which shows that this works; its quality is none.
"""

from dataclasses import dataclass
from typing import Any

from benchmarks.clone import Clone, Done, Goals, checkpoints, clone, measured, stages_run
from benchmarks.pairs import bootstrap
from benchmarks.program import WentWrong, main
from benchmarks.table import Row, at_least, ratio_at_most

GOALS = Goals(seconds=480.0, again_seconds=20.0, mib=2.5 * 1024)
GOAL_OF_BIGRAM = 0.9
DATA_DIR, ELSEWHERE, ALONE = ".tutti", ".tutti-elsewhere", ".tutti-alone"
OTHER_STEPS = 50
BLOBS = {"ingest": "ingest/document-shards/*.parquet", "tokenization": "tokenization/token-shards/*.bin"}
"""For a stage the blobs that it makes."""
SITE = ("--set", "input.crawl.connect.exhibit.test={address}")
TINY = "set -e; .venv/bin/python tools/exhibit.py >/dev/null; .venv/bin/tutti run recipes/tiny.yaml"


@dataclass(frozen=True)
class Program:
    """What is carried out in the clone: `make run`, or the tiny recipe."""

    here: Clone
    quick: bool

    def first(self) -> Done:
        """The command of the README."""
        return self.here.run("make", "run") if not self.quick else self.here.run("bash", "-c", TINY)

    def run(self, data_dir: str, *more: str, workers: int = 0) -> Any:
        """The summary of a run of the same recipe in this data directory, with more arguments.

        `workers`: processes that read pages; 0 for as many as the machine suggests.
        """
        recipe = "tiny" if self.quick else "first-light"
        run = (".venv/bin/tutti", "run", f"recipes/{recipe}.yaml", "--data-dir", data_dir, "-o", "json", *more)
        if not self.quick:
            run = (".venv/bin/python", "-m", "tools.exhibit_site", "--", *run, *SITE)
        return self.here.run("env", f"TUTTI_INGEST__WORKERS={workers}", *run).json()

    def without(self, pattern: str) -> Any:
        """The summary of the run after the blobs that match were deleted."""
        found = list((self.here.folder / DATA_DIR / "blobs").rglob(pattern))
        if not found:
            raise WentWrong(f"no blob matches {pattern}")
        for blob in found:
            blob.unlink()
        return self.run(DATA_DIR)


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where other stages run than must."""
    with clone() as here:
        program = Program(here, quick)
        setup = here.run("make", "setup")
        first, again = program.first(), program.first()
        shown = program.run(DATA_DIR)
        _expect([], shown, "the third time")
        elsewhere = program.run(ELSEWHERE, workers=4)
        alone = program.run(ALONE, "--set", f"train.steps={OTHER_STEPS}", workers=1)
        for other in (elsewhere, alone):
            _expect_same(shown, other)
        behind = ["train", *(stage["name"] for stage in shown["run"]["stages"] if stage["name"] == "sample")]
        shorter = program.run(DATA_DIR, "--set", f"train.steps={OTHER_STEPS}")
        _expect(behind, shorter, "with other train.steps")
        if checkpoints(alone) != checkpoints(shorter):
            raise WentWrong(f"by one process the states are {checkpoints(alone)}, expected {checkpoints(shorter)}")
        states = checkpoints(shown)
        for stage, pattern in BLOBS.items():
            found = program.without(pattern)
            _expect([stage], found, f"without {pattern}")
            if checkpoints(found) != states:
                raise WentWrong(f"without {pattern} the states are others: {checkpoints(found)}")
    return [*measured("make run", GOALS, setup, first, again), *_found(shown, checkpoints(elsewhere))]


def _expect(stages: list[str], summary: Any, when: str) -> None:
    if (seen := stages_run(summary)) != stages:
        raise WentWrong(f"{when} these stages ran: {seen}; expected {stages}")


def _expect_same(shown: Any, other: Any) -> None:
    """The site and the dataset, in another data directory, by another number of processes."""
    for what, seen, expected in (
        ("site", *((each["crawl"] or {}).get("site_digest") for each in (other, shown))),
        ("dataset", *(each["dataset"]["name"] for each in (other, shown))),
    ):
        if seen != expected:
            raise WentWrong(f"in another data directory the {what} is {seen}, expected {expected}")


def _found(shown: Any, elsewhere: dict[int, str]) -> list[Row]:
    model, bigram = shown["train"]["bits_per_byte"], shown["dataset"]["bigram_bits_per_byte"]
    states = checkpoints(shown)
    last = max(states)
    site = f", of the site {shown['crawl']['site_digest']}" if shown["crawl"] else ""
    causes = {f"train.steps={OTHER_STEPS}": "train", **{f"without {glob}": name for name, glob in BLOBS.items()}}
    return [
        Row(
            what="validation bits per byte",
            ours=model,
            peer=bigram,
            ratio=bootstrap([model / bigram]),
            goal=ratio_at_most(GOAL_OF_BIGRAM),
            note="peer: interpolated Kneser-Ney bigram, D = .75, of the same tokens",
        ),
        Row(
            what="the same states in a second data directory",
            unit="checkpoints",
            ours=sum(elsewhere.get(step) == digest for step, digest in states.items()),
            goal=at_least(len(states)),
            note=f"pages read by four processes there; step {last}: {states[last]}; of {shown['dataset']['name']}"
            f"{site}, which one process made too",
        ),
        Row(
            what="stages that run again",
            note="; ".join(f"{cause}: {name}" for cause, name in causes.items()),
        ),
    ]


if __name__ == "__main__":
    main("first_run", __doc__, measure)
