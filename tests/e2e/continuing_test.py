"""docs/training.md is followed: a training is continued for more steps, and starts again without the data of some."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import ROOT, tiny, tutti
from tests.faults.processes import until
from tutti.cli.failures import FAILED, MISUSE

PAGE = (ROOT / "docs/training.md").read_text()
COMMANDS = [
    shlex.split(line.strip(), comments=True)[1:] for line in re.findall(r"^ {4}(tutti .*)$", PAGE, re.MULTILINE)
]
(KEYS,) = re.findall(r"^train: \{(.*)\}$", PAGE, re.MULTILINE)
PLANNED = [f"train.{each.replace(': ', '=')}" for each in KEYS.split(", ")]
EVERY, LONGER = 3, 18


def commands(verb: str) -> list[list[str]]:
    return [each for each in COMMANDS if verb in each[:2]]


@dataclass(frozen=True)
class Trained:
    """A training of the recipe of the page, by the summary of its run."""

    data_dir: Path
    summary: dict[str, Any]

    @property
    def job(self) -> str:
        return str(self.summary["train"]["name"])

    def run(self, command: list[str], *more: str) -> Any:
        """Run a command of the page, in which JOB is this one. Returns what it prints."""
        words = [each.replace("JOB", self.job.removeprefix("jobs/")) for each in command]
        result = tutti(*words, *more, "-o", "json", "--data-dir", self.data_dir)
        assert result.code == 0, result.err
        return result.json()

    def shown(self, *words: str) -> Any:
        return self.run(list(words))

    def ended(self, job: str) -> dict[str, Any]:
        """A job that another one started, when it is done."""

        def state() -> dict[str, Any]:
            found: dict[str, Any] = self.shown("jobs", "show", job)
            assert found["state"] not in ("failed", "cancelled"), found["reason"]
            return found

        until(lambda: state()["state"] == "done", seconds=400, what=f"the end of {job}")
        return state()


def train(data_dir: Path, pages: Path, *changes: str) -> Trained:
    result = tutti(*tiny(data_dir, pages, *PLANNED, *changes))
    assert result.code == 0, result.err
    return Trained(data_dir, result.json())


@pytest.fixture(scope="module")
def trained(data_dir: Path, pages: Path) -> Trained:
    return train(data_dir, pages)


def test_a_training_that_is_extended_by_half_ends_like_one_that_was_planned_so_long(
    trained: Trained, pages: Path
) -> None:
    dry, real = commands("extend")
    checked = trained.run(dry)
    made = trained.run(real)
    assert list(made) == ["job", "line", "from_step", "checkpoint"]
    assert made == checked
    assert (made["line"], made["from_step"]) == (0, 9)
    assert made["checkpoint"] == f"checkpoints/{trained.job.removeprefix('jobs/')}/0/9"
    extended = trained.ended(made["job"])
    planned = train(trained.data_dir, pages, f"train.steps={LONGER}").summary["train"]
    assert (extended["step"], planned["step"]) == (LONGER, LONGER)
    assert extended["state_digest"] == planned["state_digest"]
    assert extended["spec"]["training_digest"] == planned["spec"]["training_digest"]
    assert trained.shown("jobs", "show", trained.job)["state_digest"] == trained.summary["train"]["state_digest"]
    curve = trained.shown("checkpoints", "curve", f"{made['job'].removeprefix('jobs/')}/0/{LONGER}")
    assert [each["step"] for each in curve["points"]] == list(range(1, LONGER + 1))


def test_a_rewound_training_reads_on_behind_the_data_that_are_left_out(trained: Trained) -> None:
    (command,) = commands("rewind")
    made = trained.run(command)
    assert (made["from_step"], made["line"]) == (3, 0)
    again = trained.ended(made["job"])
    assert again["continues"]["skipped"] == {"first": 6, "last": 8}
    assert again["continues"]["cause"] in command
    assert again["state_digest"] != trained.summary["train"]["state_digest"]

    def read(job: str, step: int) -> set[tuple[int, int, int, str]]:
        told = trained.shown("trace", job, "--step", str(step))["sightings"]
        return {(each["leaf"], each["row"], each["sample"], each["document"]) for each in told}

    for step, before in ((3, 3), (5, 5), (6, 9), (7, 10), (9, 12)):
        assert read(made["job"], step) == read(trained.job, before)
    (trace,) = commands("trace")
    last = trace[1].replace("JOB", made["job"].removeprefix("jobs/"))
    vertices = {each["name"] for each in trained.shown("trace", last, "--up")["vertices"]}
    assert {trained.job, made["job"], made["checkpoint"]} <= vertices


def test_what_cannot_be_continued_says_what_would_do(trained: Trained) -> None:
    where = ("--data-dir", trained.data_dir)
    shorter = tutti("jobs", "extend", trained.job, "--steps", "5", *where)
    early = tutti("jobs", "rewind", trained.job, "--to", "2", "--cause", "x", *where)
    wrong = tutti("jobs", "rewind", trained.job, "--to", "2", "--skip", "7-9", "--cause", "x", *where)
    assert (shorter.code, "more than 12" in shorter.err) == (MISUSE, True)
    assert (early.code, "those of steps 3, 6, 9, 12" in early.err) == (FAILED, True)
    assert (wrong.code, "such as 40..45" in wrong.err) == (MISUSE, True)
