"""Recipes, requests and reuse keys stay as recorded: earlier results serve again and runs keep their names."""

import json
from pathlib import Path

import pytest
from tools import reference

from tutti.model.schedule import learning_rate
from tutti.model.training import PROGRAMS, Training
from tutti.pipeline.recipes import sugar


def test_recipes_requests_and_reuse_keys_equal_the_reference() -> None:
    found = reference.rendered(reference.reference())
    recorded = reference.FILE.read_text()
    changed = "\n".join(reference.differences(recorded, found))
    assert found == recorded, f"{changed}\nIf this is meant: tools/reference.py, in a commit of its own"


def test_every_published_recipe_is_in_the_reference() -> None:
    recorded = json.loads(reference.FILE.read_text())
    published = {f"recipes/{path.name}" for path in Path(reference.RECIPES).glob("*.yaml")}
    assert published <= recorded.keys()
    stages = {stage["stage"] for entry in recorded.values() for stage in entry.get("stages", ())}
    assert stages >= {*sugar.STAGES, "anneal", "sample-anneal"}


def test_every_step_of_every_recipe_moves_the_parameters() -> None:
    recorded = json.loads(reference.FILE.read_text())
    stages = [stage for entry in recorded.values() for stage in entry.get("stages", ())]
    requests = [stage["request"] for stage in stages if "training" in stage["request"]]
    trainings = [Training.from_json(request["training"]) for request in requests]
    assert {training.program for training in trainings} == set(PROGRAMS)
    still = [
        (training.program, step)
        for training in trainings
        for step in range(1, training.steps + 1)
        if learning_rate(training.optimizer, step) == 0
    ]
    assert still == []


def test_one_key_is_the_crowd_of_every_stage_of_the_assistant() -> None:
    text = (reference.RECIPES / "assistant.yaml").read_text()
    for crowd in ("../datasets/letters/crowd.yaml", "other.yaml"):
        stages = reference.entry(reference.Case(text, (f"crowd={crowd}",)))["stages"]
        judging = {each["stage"]: each["request"] for each in stages if "crowd" in each["request"]}
        crowds = {name: request.get("simulated", request)["crowd"] for name, request in judging.items()}
        assert crowds == dict.fromkeys(("judged", "grpo-compared", "ppo-compared", "dpo-compared"), crowd)


@pytest.mark.parametrize(
    ("override", "first"),
    [
        ("input.limit=7", "ingest"),
        ("quality.rules=c4", "filter"),
        ("dedup.near=0.9", "dedup"),
        ("data.seed=1", "tokenization"),
        ("train.seed=1", "train"),
        ("sample.seed=1", "sample"),
    ],
)
def test_one_changed_parameter_differs_from_the_reference_from_its_stage_on(override: str, first: str) -> None:
    case = reference.Case(reference.LEAST, ("index=true", "sample.prompts=The"))
    changed = reference.Case(case.text, (*case.overrides, override))
    before, after = (reference.entry(each) for each in (case, changed))
    assert before["digest"] != after["digest"]
    differ = [old["stage"] for old, new in zip(before["stages"], after["stages"], strict=True) if old != new]
    assert differ[0] == first
    assert list(reference.differences(reference.rendered(before), reference.rendered(after)))
