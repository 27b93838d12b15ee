"""The recipe of the assistant, made small: from texts to policies that are compared by judgements."""

from pathlib import Path

import pytest
from tools.letters import write

from tests.e2e.command import ROOT, Result, tutti

SMALL = (
    "size=tiny",
    "train.steps=2",
    "stages.tuned.steps=4",
    "stages.answers.each=2",
    "stages.judged.overlap.least=1",
    "stages.judged.overlap.most=2",
    "stages.reward.epochs=1",
    "stages.grpo.steps=2",
    "stages.grpo.prompts_per_step=4",
    "stages.grpo.group=2",
    "stages.dpo.epochs=1",
)
STAGES = {
    "prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward", "grpo", "dpo", "tuned-final",
    "grpo-final", "dpo-final", "grpo-compared", "dpo-compared",
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    write(folder, texts=12, demonstrations=80, prompts=160)
    return folder


def assistant(files: Path, served: Path, *output: str) -> Result:
    places = (
        f"input.path={files / 'texts.jsonl'}",
        f"stages.prompts.path={files / 'prompts.jsonl'}",
        f"stages.demonstrations.path={files / 'demonstrations.jsonl'}",
    )
    sets = [part for each in (*SMALL, *places) for part in ("--set", each)]
    return tutti("run", ROOT / "recipes" / "assistant.yaml", *sets, *output, "--data-dir", served)


def test_a_run_leads_from_texts_to_compared_policies_and_is_reused(files: Path, served: Path) -> None:
    result = assistant(files, served, "-o", "json")
    assert result.code == 0, result.err
    stages = {stage["name"]: stage for stage in result.json()["run"]["stages"]}
    assert set(stages) >= STAGES
    assert {stage["state"] for stage in stages.values()} == {"done"}
    for name in ("grpo-compared", "dpo-compared"):
        compared = tutti("comparisons", "show", stages[name]["resource"], "-o", "json", "--data-dir", served).json()
        assert compared["judgements"] == 3 * compared["pairs"] > 0
        assert compared["wins"]["low"] <= compared["wins"]["mean"] <= compared["wins"]["high"]
    again = assistant(files, served, "-o", "json")
    assert again.code == 0, again.err
    assert all(stage["reused"] for stage in again.json()["run"]["stages"])


def test_a_policy_is_traced_to_the_judgements_and_demonstrations_that_shaped_it(files: Path, served: Path) -> None:
    run = assistant(files, served, "-o", "json").json()["run"]
    stages = {stage["name"]: stage for stage in run["stages"]}
    above = tutti("trace", stages["dpo"]["resource"], "--data-dir", served)
    assert above.code == 0, above.err
    for name in ("preferences", "judged", "answers"):
        assert stages[name]["resource"] in above.out
