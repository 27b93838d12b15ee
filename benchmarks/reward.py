"""Reward models beside the ceiling of a noisy judge: `python -m benchmarks.reward [--seeds 5] [--quick] [--strict]`.

A row is a seed of the language of letters with a fair crowd. Pairs of the tuned model's answers to prompts that nothing
was trained on are judged by annotators whom the reward model never saw. `accuracy` is the share of their judgements
that the reward model foretells, `ceiling` the share that the known utility foretells: nobody foretells more of a noisy
judge. `ECE` is the expected calibration error of the promised probabilities against these judgements. `CPU s` is the
processor time of a run that trains the reward model, without that of the same run when all of it is reused.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from benchmarks.assistant import FOLDER, ROOT, asked, recipe
from benchmarks.program import machine
from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.checkpoints.reader import stage
from tutti.checkpoints.staged import open_staged
from tutti.corpus.conversations.conversations import Answer, prompt_digest
from tutti.corpus.conversations.template import of_digest
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer
from tutti.judgements.crowds import Crowd, generator_of
from tutti.records.manifest import Kind, Manifest
from tutti.staging import linefiles
from tutti.trainer.batches.calibration import calibration_error

FAIR = """utility: letters@1
kinds: [{name: fair, share: 1.0, sharpness: [1.5, 3.5], left: [-0.25, 0.25], length: [-0.03, 0.03]}]
"""
STAGES = ("prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward")
ANNOTATORS, EACH = 20, 3
POINTS, ECE, CPU_SECONDS = 3.0, 0.05, 90.0
Pair = tuple[Answer, Answer]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs with seeds from 0 on; %(default)s")
    parser.add_argument("--quick", action="store_true", help="few steps: shows that it works, and no more")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is missed")
    given = parser.parse_args()
    subprocess.run([sys.executable, "-m", "tools.letters"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(machine())
    print(f"{'seed':4} {'pairs':>6} {'accuracy':>9} {'ceiling':>8} {'points':>7} {'ECE':>6} {'CPU s':>6}")
    found = []
    for seed in range(given.seeds):
        found.append(measured(seed, quick=given.quick))
        print(found[-1], flush=True)
    points, ece, seconds = (
        statistics.median(getattr(each, name) for each in found) for name in ("points", "ece", "cpu")
    )
    print(f"median: {points:.1f} points below the ceiling, ECE {ece:.3f}, {seconds:.0f} CPU s")
    missed = [
        f"{what}: {seen:.3g}, expected at most {most:g}"
        for what, seen, most in (("points", points, POINTS), ("ECE", ece, ECE), ("CPU seconds", seconds, CPU_SECONDS))
        if seen > most
    ]
    if given.quick:
        missed = []
    print(*(missed or ["no goal is for so few steps" if given.quick else "all goals are met"]), sep="\n")
    if given.strict and missed:
        sys.exit(1)


@dataclass(frozen=True)
class Line:
    """What a reward model of a seed is worth; `cpu` in seconds."""

    seed: int
    pairs: int
    accuracy: float
    ceiling: float
    ece: float
    cpu: float

    @property
    def points(self) -> float:
        """How far the accuracy is below the ceiling."""
        return 100 * (self.ceiling - self.accuracy)

    def __str__(self) -> str:
        return (
            f"{self.seed:<4} {self.pairs:>6,} {self.accuracy:>9.3f} {self.ceiling:>8.3f} {self.points:>7.1f} "
            f"{self.ece:>6.3f} {self.cpu:>6.1f}"
        )


def measured(seed: int, *, quick: bool) -> Line:
    """Train a reward model with a seed, and let annotators whom it never saw judge its pairs."""
    whole = recipe(seed, quick=quick)
    crowd = FOLDER / "fair.yaml"
    crowd.write_text(FAIR)
    stages: dict[str, Any] = {name: whole["stages"][name] for name in STAGES}
    whole["crowd"], stages["judged"]["crowd"] = str(crowd), {"annotators": ANNOTATORS}
    fresh = {"checkpoint": "tuned", "prompts": "prompts.final"}
    stages["fresh"] = {"kind": "sample", "from": fresh, "tokens": 14, "each": 2, "seed": seed + 1}
    with tempfile.TemporaryDirectory(dir=FOLDER) as data:  # a new one, so that nothing of it was made before
        before = {name: stages[name] for name in stages if name != "reward"}
        run({**whole, "stages": before}, Path(data))
        trained, cpu = run({**whole, "stages": stages}, Path(data))
        _, startup = run({**whole, "stages": stages}, Path(data))
        blobs = EmbeddedBlobs(Path(data) / "blobs")
        pairs = pairs_of(blobs, trained["fresh"])
        margins, utilities = margins_of(blobs, trained["reward"], pairs), utilities_of(pairs)
    accuracy, ceiling, judged = foretold(pairs, margins, utilities, seed + 1)
    promised = 0.5 + 0.5 * np.tanh(margins / 2)
    ece = calibration_error(promised, judged, np.ones(len(pairs)))
    return Line(seed, len(pairs), accuracy, ceiling, ece, cpu - startup)


def run(tree: dict[str, Any], data: Path) -> tuple[dict[str, Any], float]:
    """Carry a recipe out: its stages by name, and the processor seconds of all processes."""
    path = FOLDER / "reward.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = asked("run", str(path), "--data-dir", str(data))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {each["name"]: each for each in done["run"]["stages"]}, seconds


def pairs_of(blobs: EmbeddedBlobs, sample: dict[str, Any]) -> list[Pair]:
    """Two different answers to each prompt."""
    manifest = Manifest.decode(blobs.get(sample["manifest_key"]), expected=Kind.SAMPLE)
    by_prompt: dict[str, list[Answer]] = {}
    for each in linefiles.read(blobs, manifest, Answer):
        by_prompt.setdefault(prompt_digest(each.prompt), []).append(each)
    return [(first, second) for first, second in by_prompt.values() if first.text != second.text]


def margins_of(blobs: EmbeddedBlobs, reward: dict[str, Any], pairs: list[Pair]) -> npt.NDArray[np.float64]:
    """The reward of the first answer of each pair less that of the second."""
    import torch

    from tutti.inference.parameters import parameters_of
    from tutti.inference.scoring import rewards
    from tutti.model.transformer import Transformer

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        stage(blobs, reward["manifest_key"], Path(folder), identity=reward["content_digest"])
        opened = open_staged(Path(folder))
        training = opened.state.training
        tokenizer = BytePairTokenizer.load(
            blobs.get(tokenizer_key(training.tokenizer)), expected_version=training.tokenizer
        )
        renderer = of_digest(training.template).bind(tokenizer)
        model = Transformer(opened.body.layout, torch.from_numpy(parameters_of(opened)), compiled=False)
        texts, begins = [], []
        for answer in (*(first for first, _ in pairs), *(second for _, second in pairs)):
            prompt = renderer.open(answer.prompt).tolist()
            end = [tokenizer.eos] if answer.stop == "end" else []
            texts.append([*prompt, *answer.tokens, *end])
            begins.append(len(prompt))
        scores = rewards(model, texts, begins, rows=training.step.rows)
    return np.asarray(scores[: len(pairs)] - scores[len(pairs) :], np.float64)


def utilities_of(pairs: list[Pair]) -> npt.NDArray[np.float64]:
    """The known utility of the first answer of each pair less that of the second."""
    utility = Crowd.read(FAIR).language.utility
    known = [
        [utility(pair[0].prompt[-1].content, each.text, ended=each.stop == "end") for each in pair] for pair in pairs
    ]
    return np.array([first - second for first, second in known])


def foretold(
    pairs: list[Pair], margins: npt.NDArray[np.float64], utilities: npt.NDArray[np.float64], seed: int
) -> tuple[float, float, npt.NDArray[np.float64]]:
    """The shares of fresh judgements that margins and utilities foretell, and how often the first answer won each pair.

    A judgement that says equal counts half of a win, and decides nothing.
    """
    crowd = Crowd.read(FAIR)
    people = crowd.annotators(ANNOTATORS, seed + 1000)
    hits, won = [], np.zeros(len(pairs))
    for at, pair in enumerate(pairs):
        rng = generator_of(seed, "judged", at)
        for who in rng.choice(ANNOTATORS, EACH, replace=False).tolist():
            turned = bool(rng.integers(2))
            shown = pair[::-1] if turned else pair
            score = crowd.score(
                people[who],
                pair[0].prompt[-1].content,
                (shown[0].text, shown[1].text),
                key=(seed, who, str(at)),
                ended=(shown[0].stop == "end", shown[1].stop == "end"),
            )
            says_first = np.sign(score if turned else -score)
            won[at] += (0.5 + 0.5 * says_first) / EACH
            if says_first:
                hits.append([_agrees(says_first, each[at]) for each in (margins, utilities)])
    accuracy, ceiling = np.mean(hits, 0)
    return float(accuracy), float(ceiling), won


def _agrees(says_first: float, margin: float) -> float:
    return 0.5 if margin == 0 else float(np.sign(margin) == says_first)


if __name__ == "__main__":
    main()
