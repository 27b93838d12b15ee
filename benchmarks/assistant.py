"""Policies of the toy language beside the tuned model: `python -m benchmarks.assistant [--seeds 5] [--quick]`.

A row is a comparison on prompts that nothing was trained on. `judged` is the share of simulated judgements that the
candidate wins, with its 95 % interval; `utility` the share of pairs in which its known utility is higher, with a Wilson
interval; `promised` and `preferred` are what the reward model says of the same answers. Beside the policies of
recipes/assistant.yaml are the tuned model at lower temperatures, a policy whose judgements are random (the control),
one whose reward model has 300 judgements and which has no KL penalty, and two that learn from a crowd of which 60 %
like length: from the fit that estimates leanings, and from the plain one. `--strict` requires the goals at the end.
"""

import argparse
import copy
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.platforms import up
from benchmarks.program import machine
from tutti.judgements.intervals import wilson

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "assistant"
TUTTI = Path(sys.executable).with_name("tutti")
POLICIES = ("grpo", "ppo", "dpo")
TEMPERATURES = (0.3, 0.5, 0.7)
LEANING = """utility: letters@1
kinds:
  - {name: fair, share: 0.3, sharpness: [1.5, 3.5], left: [-0.25, 0.25], length: [-0.03, 0.03]}
  - {name: fond of length, share: 0.6, sharpness: [0.6, 1.2], length: [1.5, 2.5]}
  - {name: random, share: 0.1, sharpness: [0.0, 0.0], left: [-0.5, 0.5]}
"""
RANDOM = "utility: letters@1\nkinds: [{name: random, share: 1.0, sharpness: [0.0, 0.0]}]\n"
QUICK = {"tuned": {"steps": 40}, "reward": {"epochs": 1}, "grpo": {"steps": 10}, "dpo": {"epochs": 1}}
Stages = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs with seeds from 0 on; %(default)s")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, and no more")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    given = parser.parse_args()
    subprocess.run([sys.executable, "-m", "tools.letters"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(machine())
    print(
        f"{'seed':4} {'comparison':24} {'judged':24} {'utility':24} {'promised':9} {'preferred':9} {'nats':6} release"
    )
    missed = []
    with up(FOLDER / "data"):
        for seed in range(given.seeds):
            found = {}
            for line in measured(seed, quick=given.quick):
                print(line, flush=True)
                found[line.name] = line
            missed += [f"seed {seed}: {each}" for each in misses(found)] if not given.quick else []
    print(*(missed or ["no goal is for so few steps" if given.quick else "all goals are met"]), sep="\n")
    if given.strict and missed:
        sys.exit(1)


@dataclass(frozen=True)
class Line:
    """A comparison: what was judged, the share by known utility with its interval, and what became of its release."""

    seed: int
    name: str
    judged: tuple[float, float, float]
    utility: tuple[float, float, float]
    promised: float
    preferred: float
    divergence: float
    released: bool

    def __str__(self) -> str:
        judged, utility = (f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in (self.judged, self.utility))
        release = "released" if self.released else "refused"
        numbers = f"{self.promised:<9.3f} {self.preferred:<9.3f} {self.divergence:<6.2f}"
        return f"{self.seed:<4} {self.name:24} {judged}  {utility}  {numbers} {release}"


def misses(found: Mapping[str, Line]) -> Iterator[str]:
    """The goals that the comparisons of a seed miss, in words."""
    for name in ("grpo", "ppo"):
        line, warm = found[name], found[f"{name}-at-1"]
        for what, seen, least in (
            ("low bound by utility", line.utility[1], 0.9),
            ("judged", line.judged[0], 0.65),
            ("by utility at temperature 1", warm.utility[0], 0.7),
        ):
            if seen < least:
                yield f"{name}, {what}: {seen:.3f}, expected at least {least}"
        if not line.released:
            yield f"{name} was refused, expected a release"
    control, few = found["random-grpo"], found["few-grpo"]
    if control.utility[0] > 0.6:
        yield f"random judgements, by utility: {control.utility[0]:.3f}, expected at most 0.6"
    if few.preferred < 0.9:
        yield f"300 judgements without KL, preferred: {few.preferred:.3f}, expected at least 0.9"
    if few.judged[0] > 0.4:
        yield f"300 judgements without KL, judged: {few.judged[0]:.3f}, expected at most 0.4"
    if few.released:
        yield "300 judgements without KL: released, expected refused"
    gain = found["leaning-grpo"].judged[0] - found["plain-grpo"].judged[0]
    if gain < 0.1:
        yield f"a crowd that leans, fitted minus plain as judged: {gain:.3f}, expected at least 0.1"


def measured(seed: int, *, quick: bool) -> Iterator[Line]:
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
        yield Line(
            seed,
            name.removesuffix("-compared"),
            (wins["mean"], wins["low"], wins["high"]),
            (found["better"], low, high),
            found["promised"],
            found["preferred"],
            found["divergence"],
            released=not release["summary"].startswith("refused"),
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
    leaning = FOLDER / "leaning.yaml"
    leaning.write_text(LEANING)
    for name, fit in (("leaning", "reliability@1"), ("plain", "plain@1")):
        beside(stages, name, judged={"crowd": {"simulated": str(leaning), "annotators": 20}}, preferences={"fit": fit})
    few = {"judgements": 300, "overlap": {"least": 1, "most": 1}}
    unbound = {"kl": 0.0, "learning_rate": 1e-3, "group": 8}  # with 4, one of five became too certain to learn on
    beside(stages, "few", judged=few, reward={"epochs": 6}, grpo=unbound if quick else unbound | {"steps": 80})
    for policy in (*POLICIES, *(f"{control}-grpo" for control in ("random", "few", "leaning", "plain"))):
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


def _renamed(said: Any, renamed: dict[str, str]) -> Any:
    if isinstance(said, dict):
        return {role: renamed.get(each, each) for role, each in said.items()}
    return renamed.get(said, said)


def asked(*arguments: str) -> Any:
    """What a command prints as JSON."""
    done = subprocess.run([TUTTI, *arguments, "-o", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode:
        sys.exit(f"tutti {' '.join(arguments)} ended with {done.returncode}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
