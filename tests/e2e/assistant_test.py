"""The recipe of the assistant, made small: from texts to policies that are compared by judgements."""

from pathlib import Path

import pytest
from tools.letters import write

from tests.e2e.command import ROOT, Result, tutti
from tests.faults.processes import until

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
    "stages.grpo-release.win=0",  # so little training wins nothing: one gate lets everything through, the other nothing
    "stages.grpo-release.gap=1",
    "stages.dpo-release.win=0.99",
)
STAGES = {
    "prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward", "grpo", "ppo", "dpo",
    "tuned-final", "grpo-final", "ppo-final", "dpo-final", "grpo-compared", "ppo-compared", "dpo-compared",
    "grpo-release", "ppo-release", "dpo-release",
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
    assert {each["stage"] for each in result.json()["models"]} == {"train", "tuned", "dpo", "grpo", "ppo"}
    for name in ("grpo-compared", "ppo-compared", "dpo-compared"):
        compared = tutti("comparisons", "show", stages[name]["resource"], "-o", "json", "--data-dir", served).json()
        assert compared["judgements"] == 3 * compared["pairs"] > 0
        assert compared["wins"]["low"] <= compared["wins"]["mean"] <= compared["wins"]["high"]
        assert 0 < compared["promised"] < 1
        assert compared["divergence"] > 0
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


def test_a_release_is_signed_traced_refused_by_its_rules_and_stale_after_a_retraction(
    files: Path, served: Path, tmp_path: Path
) -> None:
    run = assistant(files, served, "-o", "json").json()["run"]
    stages = {stage["name"]: stage for stage in run["stages"]}
    refused = tutti("releases", "show", stages["dpo-release"]["resource"], "-o", "json", "--data-dir", served).json()
    assert (refused["standing"], refused["signature"]) == ("refused", "")
    assert "win: the low bound of the judged win rate is " in refused["reason"]
    assert stages["dpo-release"]["summary"].startswith("refused: win: ")

    release = stages["grpo-release"]["resource"]
    key = tmp_path / "release.key"
    key.write_text(tutti("releases", "key", "--data-dir", served).out)
    verified = tutti("releases", "verify", release, "--key", key, "--data-dir", served)
    assert verified.code == 0, verified.err
    key.write_text("ab" * 32)
    forged = tutti("releases", "verify", release, "--key", key, "--data-dir", served)
    assert (forged.code, "was not signed by the key" in forged.err) == (1, True)
    above = tutti("trace", release, "--data-dir", served).out
    for name in ("grpo-compared", "reward", "preferences", "judged"):
        assert stages[name]["resource"] in above

    campaign = stages["judged"]["resource"]
    listed = tutti("annotators", "ls", campaign, "-o", "json", "--data-dir", served).json()
    least = min((each for each in listed if each.get("judged")), key=lambda each: each["judged"])
    retracted = tutti("annotators", "retract", campaign, least["key"], "--reason", "to see it", "--data-dir", served)
    assert retracted.code == 0, retracted.err

    def verify() -> Result:
        return tutti("releases", "verify", release, "--data-dir", served)

    until(lambda: verify().code != 0, seconds=60, what="a stale release")
    assert f"it is stale, expected active; stale: {campaign} has the content" in verify().err
    revoked = tutti("releases", "revoke", release, "--reason", "no longer wanted", "--data-dir", served)
    assert revoked.out == f"{release} is revoked\n"


def test_after_a_retraction_only_what_the_judgements_shaped_is_made_again(files: Path, served: Path) -> None:
    """An annotator of the run before was retracted."""
    again = assistant(files, served, "-o", "json")
    assert again.code == 0, again.err
    stages = {stage["name"]: stage for stage in again.json()["run"]["stages"]}
    made = {name for name in STAGES if not stages[name]["reused"]}
    assert STAGES - made == {"prompts", "demonstrations", "tuned", "answers", "judged", "tuned-final"}
