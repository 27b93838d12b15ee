"""The second assistant, made small: it goes on from the base of first light, which is not trained again."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.exhibit_site import serving
from tools.sentences import write

from tests.e2e.command import ROOT, Result, tutti
from tests.e2e.site import Counting
from tutti.client import connect
from tutti.contracts.common.v1 import GetRequest
from tutti.corpus.conversations.template import CHAT_1
from tutti.model.training import Training

FLAT = (
    "size=tiny",
    "tokenizer.vocabulary=400",
    "train.steps=2",
    "train.ranks=1",
    "train.microbatches=2",
    "train.warmup=1",
    "train.checkpoint_every=2",
    "train.validate_every=0",
    "sample.tokens=2",
    "data.context=128",
)
LENGTH = 64
"""Longer than in the recipe: a tokenizer of 400 tokens spells words."""
TRAINED = ("base", "tuned", "reward", "grpo", "dpo")
SMALL = (
    *FLAT,
    "stages.prompts.split.train=0.3",
    "stages.prompts.split.campaign=0.5",
    "stages.prompts.split.final=0.2",
    "stages.tuned.steps=2",
    "stages.reward.epochs=1",
    "stages.grpo.steps=1",
    "stages.grpo.prompts_per_step=4",
    "stages.grpo.group=2",
    "stages.grpo-release.win=0.99",  # so little training wins nothing
    *(f"stages.{name}.length={LENGTH}" for name in TRAINED),
    *(f"stages.{name}.ranks=1" for name in TRAINED),
)
REUSED = ("crawl", "ingest", "filter", "dedup", "tokenization", "train", "index", "sample")


@pytest.fixture(scope="module")
def address(pages: Path) -> Iterator[str]:
    with serving(Counting(pages)) as where:
        yield where


@pytest.fixture(scope="module")
def files(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the sentences of twenty pages; of the prompts a few."""
    folder = tmp_path_factory.mktemp("sentences")
    write(folder, pages, demonstrations=60)
    for name, count in (("prompts", 60), ("unseen", 4)):
        lines = (folder / f"{name}.jsonl").read_bytes().splitlines(keepends=True)
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines[:count]))
    return folder


def run(recipe: str, served: Path, address: str, *overrides: str) -> Any:
    connect_to = f"input.crawl.connect.exhibit.test={address}"
    sets = [part for each in (connect_to, *overrides) for part in ("--set", each)]
    result: Result = tutti("run", ROOT / "recipes" / recipe, *sets, "-o", "json", "--data-dir", served)
    assert result.code == 0, result.err
    return result.json()


@pytest.fixture(scope="module")
def made(served: Path, address: str, files: Path) -> Any:
    """The run of the second recipe, after one of first light."""
    run("first-light.yaml", served, address, *FLAT)
    places = (f"stages.{name}.path={files / name}.jsonl" for name in ("prompts", "unseen", "demonstrations"))
    return run("first-light-assistant.yaml", served, address, *SMALL, *places)


def test_it_goes_on_from_the_base_of_first_light(made: Any) -> None:
    stages = {stage["name"]: stage for stage in made["run"]["stages"]}
    assert {stage["state"] for stage in stages.values()} == {"done"}
    assert [name for name, stage in stages.items() if stage["reused"]] == list(REUSED)


def test_the_checkpoint_and_its_tokenizer_get_the_role_tokens(made: Any, served: Path) -> None:
    jobs = {stage["name"]: stage["resource"] for stage in made["run"]["stages"]}
    with connect(served) as client:
        spec = {name: client.scheduler.GetJob(GetRequest(name=jobs[name])).spec for name in ("train", "base", "grpo")}
    trainings = {name: Training.from_json(each.training) for name, each in spec.items()}
    conversion = trainings["base"].conversion
    assert conversion is not None
    assert conversion.vocabulary == trainings["train"].model.vocabulary
    assert trainings["base"].model.vocabulary == conversion.vocabulary + len(CHAT_1.tokens)
    assert trainings["grpo"].conversion is None
    assert trainings["grpo"].model == trainings["base"].model
    assert spec["base"].initial.startswith(f"checkpoints/{jobs['train'].removeprefix('jobs/')}/")


def test_its_report_says_what_the_models_cannot_do(made: Any) -> None:
    told = Path(made["report"]).read_text()
    assert "What it can and cannot do" in told
    assert re.search(r"Loss on held-out samples, in nats a token: train [\d.]+ \(text\), base [\d.]+ \(demonstr", told)
    assert "not measured is whether a sentence is true" in told
    assert "Grpo-final " in told
    assert "gate: refused (win: " in told
    assert "in fewer than half: " in told or "in at most 10 %: " in told
