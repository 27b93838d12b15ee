"""Policies of the toy language beside the tuned model: `python -m benchmarks.assistant [--seeds 5] [--quick]`.

A row is a comparison on prompts that nothing was trained on. `judged` is the share of simulated judgements that the
candidate wins, with its 95 % interval; `utility` the share of pairs in which its known utility is higher, with a Wilson
interval; `promised` and `preferred` are what the reward model says of the same answers. Beside the policies of
recipes/assistant.yaml are the tuned model at lower temperatures, a policy whose judgements are random (the control),
and one whose reward model has 300 judgements and which has no KL penalty.
"""

import argparse
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "assistant"
TUTTI = Path(sys.executable).with_name("tutti")
POLICIES = ("grpo", "ppo", "dpo")
TEMPERATURES = (0.3, 0.5, 0.7)
RANDOM = "utility: letters@1\nkinds: [{name: random, share: 1.0, sharpness: [0.0, 0.0]}]\n"
QUICK = {"tuned": {"steps": 40}, "reward": {"epochs": 1}, "grpo": {"steps": 10}, "dpo": {"epochs": 1}}
Stages = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs with seeds from 0 on; %(default)s")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, and no more")
    given = parser.parse_args()
    subprocess.run([sys.executable, "-m", "tools.letters"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(
        f"{'seed':4} {'comparison':24} {'judged':24} {'utility':24} {'promised':9} {'preferred':9} {'nats':6} release"
    )
    for seed in range(given.seeds):
        for line in measured(seed, quick=given.quick):
            print(line, flush=True)


def measured(seed: int, *, quick: bool) -> Iterator[str]:
    """Carry the recipe out with a seed; a line for each comparison."""
    path = FOLDER / f"seed-{seed}.yaml"
    path.write_text(yaml.safe_dump(recipe(seed, quick=quick), sort_keys=False))
    data = FOLDER / "data"
    done = asked("run", str(path), "--data-dir", str(data))
    stages = {each["name"]: each for each in done["run"]["stages"]}
    for name, stage in stages.items():
        if not name.endswith("-compared"):
            continue
        found = asked("comparisons", "show", stage["resource"], "--data-dir", str(data))
        wins = found["wins"]
        low, high = wilson(found["better"], found["pairs"])
        release = stages[name.replace("-compared", "-release")]
        yield (
            f"{seed:<4} {name.removesuffix('-compared'):24} "
            f"{wins['mean']:.3f} ({wins['low']:.3f} to {wins['high']:.3f})  "
            f"{found['better']:.3f} ({low:.3f} to {high:.3f})  "
            f"{found['promised']:<9.3f} {found['preferred']:<9.3f} {found['divergence']:<6.2f} "
            f"{'refused' if release['summary'].startswith('refused') else 'released'}"
        )


def recipe(seed: int, *, quick: bool) -> dict[str, Any]:
    """The recipe of `make assistant` with more comparisons, whose paths are absolute."""
    text = (ROOT / "recipes" / "assistant.yaml").read_text().replace("../", f"{ROOT}/")
    found: dict[str, Any] = yaml.safe_load(text)
    stages: Stages = found["stages"]
    for name, changes in QUICK.items() if quick else ():
        stages[name] |= changes
    random = FOLDER / "random.yaml"
    random.write_text(RANDOM)
    beside(stages, "random", judged={"crowd": {"simulated": str(random), "annotators": 20}})
    few = {"judgements": 300, "overlap": {"least": 1, "most": 1}}
    beside(stages, "few", judged=few, reward={"epochs": 6}, grpo={"kl": 0.0, "learning_rate": 1e-3, "steps": 140})
    if quick:
        stages["few-grpo"]["steps"] = 10
    for policy in (*POLICIES, *(f"{control}-grpo" for control in ("random", "few"))):
        compare(stages, policy, policy, temperature=0.0)
    for policy in POLICIES:
        compare(stages, f"{policy}-at-1", policy, temperature=1.0)
    for temperature in TEMPERATURES:
        compare(
            stages,
            f"tuned-at-{round(100 * temperature)}-percent",
            "tuned",
            temperature=temperature,
            baseline="tuned-at-1-final",
        )
    for stage in stages.values():
        if stage.get("kind") in ("sft", "sample", "campaign", "reward", "grpo", "dpo"):
            stage["seed"] = seed
    for name, stage in stages.items():
        if name.endswith("-compared"):
            stage["seed"] = seed + 1
    return found


def beside(stages: Stages, name: str, **changes: dict[str, Any]) -> None:
    """Add judgements, preferences, a reward model and a policy that differ from the recipe's in some keys."""
    renamed = {each: f"{name}-{each}" for each in ("judged", "preferences", "reward", "grpo")}
    for each, new in renamed.items():
        stage = copy.deepcopy(stages[each]) | changes.get(each, {})
        stage["from"] = _renamed(stage["from"], renamed)
        stages[new] = stage


def compare(stages: Stages, name: str, policy: str, *, temperature: float, baseline: str = "") -> None:
    """Compare a policy's answers with those of the tuned model at the same temperature."""
    tuned = baseline or ("tuned-final" if temperature == 0 else "tuned-at-1-final")
    sample = {"kind": "sample", "tokens": 14}
    stages.setdefault("tuned-at-1-final", {**sample, "from": {"checkpoint": "tuned", "prompts": "prompts.final"}})
    asked_of = {"checkpoint": policy, "prompts": "prompts.final"}
    stages[f"{name}-final"] = {**sample, "from": asked_of, "temperature": temperature}
    reward = f"{policy.removesuffix('-grpo')}-reward" if policy.endswith("-grpo") else "reward"
    crowd = stages["grpo-compared"]["crowd"]
    inputs = {"baseline": tuned, "candidate": f"{name}-final", "reward": reward}
    stages[f"{name}-compared"] = {"kind": "comparison", "from": inputs, "crowd": copy.deepcopy(crowd)}
    stages[f"{name}-release"] = {"kind": "release", "from": {"compared": f"{name}-compared"}}


def wilson(share: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share of independent pairs (Wilson 1927)."""
    centre, spread = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return (centre - spread) / (1 + z * z / count), (centre + spread) / (1 + z * z / count)


def _renamed(said: Any, renamed: dict[str, str]) -> Any:
    if isinstance(said, dict):
        return {role: renamed.get(each, each) for role, each in said.items()}
    return renamed.get(said, said)


def asked(*arguments: str) -> Any:
    """What a command prints as JSON."""
    done = subprocess.run([TUTTI, *arguments, "-o", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
