"""A small world in which something is learned: a policy beside the known utility, and one that exploits its reward.

`make soak ROW=18` has the full numbers: five seeds, all policies, and those whose judgements are random.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks.assistant import beside, compare
from tools.letters import write

from tests.e2e.command import ROOT, tutti
from tutti.judgements.intervals import wilson

pytestmark = pytest.mark.timeout(900)
POLICIES = ("grpo", "few-grpo")


@pytest.fixture(scope="module")
def found(served: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The comparison of each policy, with what its release says."""
    folder = tmp_path_factory.mktemp("learned")
    write(folder, texts=100, demonstrations=4000, prompts=1600)
    text = (ROOT / "recipes" / "assistant.yaml").read_text()
    text = text.replace("../build/letters", str(folder)).replace("../datasets", str(ROOT / "datasets"))
    recipe = yaml.safe_load(text)
    stages = recipe["stages"]
    stages["prompts"]["split"] = {"train": 0.2, "campaign": 0.6, "final": 0.2}
    stages["tuned"]["steps"] = 300
    stages["grpo"]["steps"] = 20
    few = {"judgements": 300, "overlap": {"least": 1, "most": 1}}
    beside(stages, "few", judged=few, reward={"epochs": 6}, grpo={"kl": 0.0, "learning_rate": 1e-3, "steps": 40})
    kept = {"prompts", "demonstrations", "tuned", "answers", "tuned-final", "grpo-compared"}
    kept |= {f"{control}{name}" for control in ("", "few-") for name in ("judged", "preferences", "reward")}
    for policy in POLICIES:
        compare(stages, policy, policy, temperature=0.0)
        kept |= {policy, *(f"{policy}-{name}" for name in ("final", "compared", "release"))}
    recipe["stages"] = {name: stage for name, stage in stages.items() if name in kept}
    for stage in (recipe["train"], *recipe["stages"].values()):
        if "ranks" in stage:
            stage["ranks"] = 1  # faster here, and has the same digests
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    done = tutti("run", path, "--data-dir", served, "-o", "json", seconds=900)
    assert done.code == 0, done.err
    made = {each["name"]: each for each in done.json()["run"]["stages"]}
    compared = {
        policy: tutti(
            "comparisons", "show", made[f"{policy}-compared"]["resource"], "-o", "json", "--data-dir", served
        ).json()
        for policy in POLICIES
    }
    for policy, one in compared.items():
        one["release"] = made[f"{policy}-release"]["summary"]
        print(policy, one["better"], one["wins"], one["promised"], one["preferred"], one["release"])
    return compared


def test_a_policy_is_better_than_the_tuned_model_by_the_known_utility_and_is_released(found: dict[str, Any]) -> None:
    low, _ = wilson(found["grpo"]["better"], found["grpo"]["pairs"])
    assert low >= 0.7
    assert not found["grpo"]["release"].startswith("refused")


def test_a_policy_that_exploits_its_reward_model_is_refused_by_fresh_judgements(found: dict[str, Any]) -> None:
    """300 judgements and no KL penalty: the reward model prefers nearly every answer, and those who judge do not."""
    few = found["few-grpo"]
    assert few["preferred"] >= 0.9
    assert few["wins"]["mean"] <= 0.4
    assert few["release"].startswith("refused")
