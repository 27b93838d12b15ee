"""A page of noise among calm ones: each policy, from real ranks to the history, events, metrics, curve and report."""

import html
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import tiny, tutti
from tests.faults.processes import until
from tutti.backbone.direct import fetch
from tutti.model.spikes import FEWEST, OBSERVE, REWIND, SKIP

SMALL = (
    "tokenizer.vocabulary=280",
    "data.context=32",
    "dedup.near=0",
    "train.steps=30",
    "train.microbatches=2",
    "train.rows=1",
    "train.checkpoint_every=10",
    "train.validate_every=0",
    "train.learning_rate=0.04",
)
CALM = "The cat sat on the mat and the dog sat on the cat. "
RANKS = {OBSERVE: 1, SKIP: 2, REWIND: 2}


@pytest.fixture(scope="module")
def spiky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages that a model soon knows by heart; with the default seeds, the noise comes after step FEWEST."""
    folder, source = tmp_path_factory.mktemp("spiky"), random.Random(1)
    for number in range(16):
        (folder / f"calm{number:02}.txt").write_text(f"Page {number}. " + CALM * 24)
    (folder / "wild.txt").write_text("".join(chr(source.randrange(33, 127)) for _ in range(120)))
    return folder


@dataclass(frozen=True)
class Trained:
    """A training with a policy: the summary of its run, and the first and last step of its spike."""

    data_dir: Path
    summary: dict[str, Any]

    @property
    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.summary["train"]
        return found

    @property
    def spike(self) -> tuple[int, int]:
        (steps,) = {
            each for line in self.job["history"] for each in re.findall(r"a spike in steps? ([\d to]+) \(", line)
        }
        first, _, last = steps.partition(" to ")
        return int(first), int(last or first)

    def shown(self, *words: str) -> str:
        result = tutti(*words, "--data-dir", self.data_dir)
        assert result.code == 0, result.err
        return result.out

    def asked(self, *words: str) -> Any:
        return json.loads(self.shown(*words, "-o", "json"))

    def facts(self) -> list[dict[str, Any]]:
        """The spikes that ended, by the events of the job."""
        lines = map(json.loads, self.shown("events", "tail", self.job["name"], "-o", "json").splitlines())
        return [json.loads(each["payload"])["spike"] for each in lines if each["type"].endswith("SpikeEnded")]

    def counted(self) -> float:
        """The spikes of the job by the metrics of its node."""
        address = (self.data_dir / "endpoints" / "agent-a.metrics").read_text().strip()
        with fetch(f"http://{address}/metrics", seconds=10) as answer:
            told = answer.read().decode()
        return sum(
            float(each) for each in re.findall(rf'^spikes_total{{.*"{self.job["name"]}".*}} (.+)$', told, re.MULTILINE)
        )

    def read(self, step: int) -> set[tuple[int, int, int]]:
        """The leaves, rows and samples of a step."""
        sightings = self.asked("trace", self.job["name"], "--step", str(step))["sightings"]
        return {(each["leaf"], each["row"], each["sample"]) for each in sightings}


@pytest.fixture(scope="module")
def trained(data_dir: Path, spiky: Path) -> dict[str, Trained]:
    def train(policy: str) -> Trained:
        result = tutti(*tiny(data_dir, spiky, *SMALL, f"train.spikes={policy}", f"train.ranks={RANKS[policy]}"))
        assert result.code == 0, result.err
        return Trained(data_dir, result.json())

    return {policy: train(policy) for policy in RANKS}


@pytest.mark.parametrize("policy", RANKS)
def test_a_spike_is_in_the_history_the_events_the_metrics_the_curve_and_the_report(
    trained: dict[str, Trained], policy: str
) -> None:
    found = trained[policy]
    first, last = found.spike
    assert first > FEWEST
    assert found.spike == trained[OBSERVE].spike
    skipped = [] if policy == OBSERVE else list(range(first, last + 1))
    (spike,) = found.facts()
    assert (int(spike["first"]), int(spike["last"]), int(spike.get("skipped", 0))) == (first, last, len(skipped))
    assert float(spike["loss"]) > 2
    assert found.counted() == 1
    curve = found.asked("checkpoints", "curve", found.job["name"])
    assert [each["step"] for each in curve["points"] if each["skipped"]] == (skipped if policy == SKIP else [])
    page = Path(found.summary["report"]).read_text()
    assert all(html.escape(line) in page for line in found.job["history"])


def test_a_training_that_goes_back_ends_like_one_that_was_rewound_by_hand(trained: dict[str, Trained]) -> None:
    observed, back = trained[OBSERVE], trained[REWIND]
    first, last = back.spike
    skip, cause = f"{first}..{last}", "a spike"
    by_hand = observed.asked(
        "jobs", "rewind", observed.job["name"], "--to", str(first - 1), "--skip", skip, "--cause", cause
    )

    def state() -> dict[str, Any]:
        job: dict[str, Any] = observed.asked("jobs", "show", by_hand["job"])
        assert job["state"] not in ("failed", "cancelled"), job["reason"]
        return job

    until(lambda: state()["state"] == "done", seconds=400, what=f"the end of {by_hand['job']}")
    assert back.job["state_digest"] == state()["state_digest"] != observed.job["state_digest"]
    assert (back.job["epoch"], back.job["line"]) == (2, 1)
    assert any(f"goes back before step {first}" in line for line in back.job["history"])
    for step, before in ((first - 1, first - 1), (first, last + 1), (first + 2, last + 3)):
        assert back.read(step) == observed.read(before)
