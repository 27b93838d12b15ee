"""Two trainings, the second from the first one's checkpoint, and samples of both: run, killed, reused, traced."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import platform, start, tutti
from tests.faults.processes import kill_all, until
from tutti.client import connect
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.lineage.v1 import DIRECTION_UP, TraceRequest
from tutti.model.training import Training

RECIPE = """
name: two trainings
size: tiny
input: {path: %s, limit: 6}
tokenizer: {vocabulary: 300}
data: {context: 32, validation_fraction: 0.2}
train: {steps: 4, ranks: %d, microbatches: 4, checkpoint_every: 2}
sample: {prompts: [The], tokens: 4}
stages:
  anneal: {like: train, from: {initial: train}, learning_rate: 3.0e-4, ranks: %d}
  sample-anneal: {like: sample, from: anneal}
"""
NAMES = ["ingest", "filter", "dedup", "tokenization", "train", "sample", "anneal", "sample-anneal"]


def arguments(folder: Path, pages: Path, *, ranks: tuple[int, int], data_dir: Path | None = None) -> list[str | Path]:
    recipe = folder / "two.yaml"
    recipe.write_text(RECIPE % (pages, *ranks))
    return ["run", recipe, "--data-dir", data_dir or folder / "data", "-o", "json"]


def stages(result: Any) -> dict[str, dict[str, Any]]:
    assert result.code == 0, result.err
    found, texts = result.json()["run"]["stages"], result.json()["continuations"]
    assert [each["name"] for each in found] == NAMES
    assert [(each["stage"], each["prompt"]) for each in texts] == [("sample", "The"), ("sample-anneal", "The")]
    return {each["name"]: each for each in found}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("named")


@pytest.fixture(scope="module")
def killed(folder: Path, pages: Path) -> dict[str, dict[str, Any]]:
    """The stages of a run that was killed after the first checkpoint of its second training, and resumed."""
    command = arguments(folder, pages, ranks=(2, 1))
    process = start(*command)
    manifests = folder / "data" / "blobs" / "committer" / "manifests"
    until(lambda: manifests.exists() and len(list(manifests.glob("*.json"))) >= 3, seconds=120, what="a checkpoint")
    assert kill_all(folder / "data", process.pid) > 1
    process.communicate(timeout=400)
    return stages(tutti(*command))


def test_a_killed_run_gives_the_states_of_one_that_nobody_killed_on_other_ranks(
    killed: dict[str, dict[str, Any]], pages: Path, tmp_path: Path, served: Path
) -> None:
    undisturbed = stages(tutti(*arguments(tmp_path, pages, ranks=(1, 2), data_dir=served)))
    for name in ("train", "anneal"):
        assert killed[name]["content_digest"] == undisturbed[name]["content_digest"]
    assert killed["train"]["content_digest"] != killed["anneal"]["content_digest"]


@pytest.fixture(scope="module")
def up(killed: dict[str, dict[str, Any]], folder: Path) -> Iterator[None]:
    """The platform of the run is up again, without agents: nothing is trained there any more."""
    with platform(folder / "data", agents=0):
        yield


def test_all_of_it_is_reused(killed: dict[str, dict[str, Any]], up: None, folder: Path, pages: Path) -> None:
    again = stages(tutti(*arguments(folder, pages, ranks=(2, 1))))
    assert [name for name in NAMES if not again[name]["reused"]] == []
    assert {name: again[name]["resource"] for name in NAMES} == {name: killed[name]["resource"] for name in NAMES}


def test_the_sample_of_the_second_training_leads_back_to_the_first(
    killed: dict[str, dict[str, Any]], up: None, folder: Path
) -> None:
    first, second = (killed[name]["resource"].removeprefix("jobs/") for name in ("train", "anneal"))
    with connect(folder / "data") as client:
        sample = client.sampling.GetSample(GetRequest(name=killed["sample-anneal"]["resource"]))
        assert sample.spec.checkpoint == f"checkpoints/{second}/0/4"
        job = client.scheduler.GetJob(GetRequest(name=f"jobs/{second}"))
        request = TraceRequest(name=sample.name, direction=DIRECTION_UP)
        wanted = {f"checkpoints/{second}/0/4", f"jobs/{second}", f"checkpoints/{first}/0/4", f"jobs/{first}"}
        until(
            lambda: wanted <= {each.name for each in client.lineage.Trace(request).vertices}, seconds=40, what="lineage"
        )
        manifest = json.loads((folder / "data/blobs/committer/manifests" / f"{second}.0.4.json").read_bytes())
    began = Training.from_json(job.spec.training).initial
    assert began is not None
    assert began.checkpoint == f"checkpoints/{first}/0/4"
    assert began.state_digest == killed["train"]["content_digest"]
    assert began.checkpoint in manifest["parents"]
