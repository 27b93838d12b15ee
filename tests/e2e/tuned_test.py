"""A base learns to answer, its answers are judged, and it learns from that: one recipe, killed, resumed, traced."""

import json
from pathlib import Path
from typing import Any

import pytest
from tools.letters import write

from tests.e2e.command import start, tutti
from tests.faults.processes import kill_all, until
from tutti.client import connect
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.lineage.v1 import DIRECTION_UP, TraceRequest
from tutti.model.training import Training

CROWD = Path(__file__).resolve().parents[2] / "datasets/letters/crowd.yaml"
RECIPE = """
name: assistant
size: tiny
template: chat@1
input: {path: letters/texts.jsonl}
dedup: {near: 0}
tokenizer: {vocabulary: 320}
data: {context: 32, validation_fraction: 0.2}
train: {steps: 4, microbatches: 4, checkpoint_every: 2}
stages:
  demos: {kind: conversations, path: letters/demonstrations.jsonl, split: {train: 0.8, final: 0.2}}
  prompts: {kind: conversations, path: letters/prompts.jsonl}
  tuned: {kind: sft, from: {initial: train, demonstrations: demos.train}, steps: 6, microbatches: 4, rows: 4,
          checkpoint_every: 2, ranks: %(ranks)d, learning_rate: 3.0e-3, held_out: 0.1}
  answers: {kind: sample, from: {checkpoint: tuned, prompts: prompts}, each: 2, tokens: 6}
  judged: {kind: campaign, from: {answers: answers}, guideline: Prefer the better answer., axes: [helpful],
           crowd: {simulated: %(crowd)s, annotators: 3}, judgements: 16}
  liked: {kind: preferences, from: judged}
  aligned: {kind: dpo, from: {initial: tuned, preferences: liked}, steps: 4, microbatches: 4, ranks: %(ranks)d,
            checkpoint_every: 2, learning_rate: 1.0e-3}
  judge: {kind: reward, from: {initial: tuned, preferences: liked}, epochs: 2, microbatches: 4, ranks: %(ranks)d}
"""
LEARNED = ("train", "tuned", "aligned", "judge")
LONG = "abcdefgh" * 9


def arguments(folder: Path, data_dir: Path) -> list[str | Path]:
    write(folder / "letters", texts=40, demonstrations=100, prompts=20)
    lines = folder / "letters/demonstrations.jsonl"
    data = lines.read_bytes()
    for line in data.splitlines()[:8]:  # of these some are in the part that is trained on
        long = json.loads(line)
        long["messages"][-1]["content"] = LONG
        data += json.dumps(long).encode() + b"\n"
    lines.write_bytes(data)
    recipe = folder / "assistant.yaml"
    recipe.write_text(RECIPE % {"ranks": 2, "crowd": CROWD})
    return ["run", recipe, "--data-dir", data_dir, "-o", "json"]


def stages(result: Any) -> dict[str, dict[str, Any]]:
    assert result.code == 0, result.err
    return {each["name"]: each for each in result.json()["run"]["stages"]}


@pytest.fixture(scope="module")
def undisturbed(served: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The stages of a run that nobody killed, on a platform that stays up."""
    return stages(tutti(*arguments(tmp_path_factory.mktemp("tuned"), served)))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The stages of a run that was killed after the first checkpoint of its fine-tuning, and resumed."""
    folder = tmp_path_factory.mktemp("killed")
    command = arguments(folder, folder / "data")
    process = start(*command)
    manifests = folder / "data" / "blobs" / "committer" / "manifests"
    until(lambda: manifests.exists() and len(list(manifests.glob("*.json"))) >= 3, seconds=120, what="a checkpoint")
    assert kill_all(folder / "data", process.pid) > 1
    process.communicate(timeout=400)
    return stages(tutti(*command))


def test_a_killed_run_gives_the_states_of_one_that_nobody_killed(
    killed: dict[str, dict[str, Any]], undisturbed: dict[str, dict[str, Any]]
) -> None:
    for name in (*LEARNED, "demos", "liked"):
        assert killed[name]["content_digest"] == undisturbed[name]["content_digest"], name
    assert len({killed[name]["content_digest"] for name in LEARNED}) == len(LEARNED)


def test_a_fine_tuned_checkpoint_is_told_of_and_leads_back_to_what_it_learned_from(
    undisturbed: dict[str, dict[str, Any]], served: Path
) -> None:
    tuned = undisturbed["tuned"]["resource"]
    with connect(served) as client:
        job = client.scheduler.GetJob(GetRequest(name=tuned))
        training = Training.from_json(job.spec.training)
        assert (training.program, training.part) == ("sft", "train")
        assert any("longer than 33 tokens" in line for line in job.history), list(job.history)
        last = f"checkpoints/{tuned.removeprefix('jobs/')}/{job.line}/{job.decided_step}"
        request = TraceRequest(name=last, direction=DIRECTION_UP)
        wanted = {tuned, undisturbed["train"]["resource"], undisturbed["demos"]["resource"]}
        aligned = client.scheduler.GetJob(GetRequest(name=undisturbed["aligned"]["resource"]))
        assert (aligned.spec.source, aligned.spec.initial) == (undisturbed["liked"]["resource"], last)
        assert [each.checkpoint for each in aligned.spec.models] == [last]
        until(
            lambda: wanted <= {each.name for each in client.lineage.Trace(request).vertices}, seconds=40, what="lineage"
        )
        for command in (["status"], ["runs", "ls"], ["jobs", "show", tuned], ["report"], ["trace", last]):
            told = tutti(*command, "--data-dir", served)
            assert told.code == 0, (command, told.out, told.err)
