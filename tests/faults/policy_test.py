"""Processes of a platform die while it trains a policy by PPO: the run comes to the same state.

A moment is (part, n-th iteration, seed): the experience of the n-th iteration becomes visible, and a delay follows from
the seed. Rollout workers are ranks of their own; the database is in the host. In `make test` one run is hit at three
moments; at full number each has a run of its own, `-k agent-30-1`. The oracle is the canonical
export, compared byte for byte.
"""

import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tools.letters import write

from tests.e2e.command import ROOT, platform, start, tutti
from tests.faults.moments import Moment
from tests.faults.part_test import HASTE, agent, host, io_child, rank, ranks
from tests.faults.processes import family, kill_all, until
from tests.scale import SOAK, scale

pytestmark = pytest.mark.timeout(1200)
STAGES = ("prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward")
ITERATIONS = 40 if SOAK else 16


def worker(data_dir: Path) -> psutil.Process:
    """The last rank of the gang: a rollout worker."""
    return max(ranks(data_dir), key=lambda process: (process.create_time(), process.pid))


PARTS: dict[str, Callable[[Path], psutil.Process]] = {
    "rank": rank, "worker": worker, "io": io_child, "agent": agent, "host": host,
}  # fmt: skip
ALL = "platform"
Chain = tuple[Moment, ...]
SOME: Chain = (Moment("worker", 2, 1), Moment("host", 7, 1), Moment("agent", 11, 1))
EACH: Chain = tuple(Moment(part, nth, 1) for part in (*PARTS, ALL) for nth in (1, 10, 20, 30))


@dataclass(frozen=True)
class Prepared:
    """A platform's folder with everything up to the reward model, and the recipe that goes on with PPO."""

    data_dir: Path
    recipe: Path


def recipes(folder: Path, kind: str, iterations: int) -> tuple[Path, Path]:
    """Write a recipe up to the reward model, and one that goes on to a policy of this kind; both of small numbers."""
    write(folder, texts=12, demonstrations=60, prompts=120)
    text = (ROOT / "recipes" / "assistant.yaml").read_text().replace("../datasets", f"{ROOT}/datasets")
    found: Any = yaml.safe_load(text)
    found["size"], found["input"]["path"], found["train"]["steps"] = "tiny", str(folder / "texts.jsonl"), 2
    stages: dict[str, Any] = {name: found["stages"][name] for name in STAGES}
    for name in ("prompts", "demonstrations"):
        stages[name]["path"] = str(folder / f"{name}.jsonl")
    stages["tuned"]["steps"], stages["reward"]["epochs"], stages["answers"]["each"] = 4, 1, 2
    stages["reward"]["length"] = 32  # of a model that has hardly learned, few answers end
    stages["judged"]["overlap"] = {"least": 1, "most": 1}
    policy = {"steps": iterations, "checkpoint_every": 5, "prompts_per_step": 4, "group": 2}
    split = {"rollout": {"placement": "split", "workers": 2}}
    learned = {**found["stages"]["grpo"], **policy, **split, "kind": kind}
    begun, whole = folder / "begun.yaml", folder / "whole.yaml"
    begun.write_text(yaml.safe_dump({**found, "name": "begun", "stages": stages}))
    whole.write_text(yaml.safe_dump({**found, "name": "whole", "stages": {**stages, kind: learned}}))
    return begun, whole


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("letters")
    begun, whole = recipes(folder, "ppo", ITERATIONS)
    data_dir = folder / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "tutti.toml").write_text(HASTE)
    result = tutti("run", begun, "--data-dir", data_dir, seconds=400)
    assert result.code == 0, result.err
    return Prepared(data_dir, whole)


def rolled_out(data_dir: Path) -> int:
    """Iterations whose experience was ever visible."""
    folders = (data_dir / "blobs" / "trainer" / "experiences").glob("*/*/*")
    return max((int(each.name) + 1 for each in folders), default=0)


def outcome(prepared: Prepared, data_dir: Path, moments: Sequence[Moment]) -> str:
    """The canonical export after a run of PPO that is hit at these moments."""
    shutil.copytree(prepared.data_dir, data_dir)
    arguments: list[str | Path] = ["run", prepared.recipe, "-o", "json", "--data-dir", data_dir]
    for moment in (each for each in moments if each.stage == ALL):
        process = start(*arguments)
        _await(moment, data_dir, process)
        assert kill_all(data_dir, process.pid) >= 2
        process.communicate(timeout=400)
    with platform(data_dir):
        process = start(*arguments)
        for moment in (each for each in moments if each.stage != ALL):
            _await(moment, data_dir, process)
            PARTS[moment.stage](data_dir).send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
        result = tutti("export", "--canonical", "--data-dir", data_dir)
    assert result.code == 0, result.err
    assert rolled_out(data_dir) == ITERATIONS
    assert family(data_dir) == []
    return result.out


def _await(moment: Moment, data_dir: Path, process: Any) -> None:
    def there() -> bool:
        return process.poll() is not None or rolled_out(data_dir) >= moment.nth

    until(there, seconds=400, what=str(moment))
    assert process.poll() is None, process.communicate()[1]
    moment.linger()
    print(f"moment {moment}: {moment.delay:.3f} s later")


@pytest.fixture(scope="module")
def undisturbed(prepared: Prepared, tmp_path_factory: pytest.TempPathFactory) -> str:
    scale(test=len(SOME), soak=len(EACH))
    return outcome(prepared, tmp_path_factory.mktemp("undisturbed") / "data", ())


@pytest.mark.parametrize(
    "chain", [(each,) for each in EACH] if SOAK else [SOME], ids=lambda chain: "-then-".join(map(str, chain))
)
def test_a_policy_whose_processes_are_killed_comes_to_the_same_state(
    chain: Chain, prepared: Prepared, undisturbed: str, tmp_path: Path
) -> None:
    assert outcome(prepared, tmp_path / "data", chain) == undisturbed
