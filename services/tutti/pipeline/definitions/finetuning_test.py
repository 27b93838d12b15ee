"""Stages over conversations and preferences: what their jobs are asked for, what decides them, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.chassis.work.work import publish
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.annotation.v1 import Preferences
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED, CheckpointState
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run
from tutti.contracts.scheduler.v1 import Job
from tutti.corpus.conversations.template import CHAT_1
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.model.programs.dpo import DpoParameters
from tutti.model.programs.reward import RewardParameters
from tutti.model.programs.sft import SftParameters
from tutti.model.training import Conversion, Training
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import read
from tutti.pipeline.world_test import CALL, DataOwner, World
from tutti.records.manifest import Kind, Manifest

BASE = """
name: assistant
size: tiny
template: chat@1
input: {path: pages}
data: {context: 32}
tokenizer: {vocabulary: 300}
train: {steps: 20}
"""
TEXT = f"""{BASE}stages:
  demos: {{kind: conversations, path: asked, split: {{train: 0.5, final: 0.5}}}}
  tuned: {{kind: sft, from: {{initial: train, demonstrations: demos.train}}, steps: 12, rows: 4, ranks: 2}}
  judge: {{kind: reward, from: {{initial: tuned, preferences: preferences/p}}, batch: 8, microbatches: 2}}
  aligned: {{kind: dpo, from: {{initial: tuned, preferences: preferences/p}}, beta: 0.2, epochs: 2}}
"""
PAIRS = 50


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.training = lambda job: Training.from_json(job.spec.training)
    made.artefact = of_bytes(*CHAT_1.tokens).artefact
    annotation = DataOwner(made)
    lines = {"blob": "annotation/preferences/a.jsonl", "bytes": 9, "bytes_digest": "blake3:" + "a" * 64, "count": PAIRS}
    manifest = Manifest(Kind.PREFERENCES, {"lines": lines}, (), "test")  # type: ignore[dict-item]
    result = publish(made.blobs, "annotation", manifest, data_bytes=9)
    annotation.made["preferences/p"] = Preferences(name="preferences/p", state=STATE_DONE, result=result)
    made.works["preferences"] = annotation
    made.host.peers["annotation"] = annotation
    return made


def create(world: World, text: str = TEXT, *overrides: str) -> Run:
    request = CreateRunRequest(recipe=text, overrides=overrides, directory=str(world.folder))
    run = world.api.CreateRun(request, CALL).run
    world.settle()
    found: Run = run
    return found


def finished(world: World, text: str = TEXT, *overrides: str) -> tuple[Run, list[str]]:
    """The run when it has ended, and the stages that were done for it."""
    name, done = create(world, text, *overrides).name, list[str]()
    while (run := world.run(name)).state == STATE_RUNNING:
        stage = next(stage for stage in run.stages if stage.state == STATE_RUNNING)
        done.append(stage.name)
        world.finish("train" if stage.resource.startswith("jobs/") else stage.kind)
    return run, done


def jobs(world: World, run: Run) -> dict[str, Job]:
    """The job of each training of a run, by the name of its stage."""
    return {each.name: world.train.made[each.resource] for each in run.stages if each.resource.startswith("jobs/")}


def test_each_job_goes_on_with_the_checkpoint_its_model_and_its_tokenizer(world: World) -> None:
    run, done = finished(world)
    assert run.state == STATE_DONE
    assert done[-5:] == ["train", "demos", "tuned", "aligned", "judge"]
    made = jobs(world, run)
    trainings = {name: Training.from_json(job.spec.training) for name, job in made.items()}
    base, tuned = trainings["train"], trainings["tuned"]
    tokenizer = of_bytes(*CHAT_1.tokens).version
    results = {each.name: each for each in run.stages}
    for name, program, initial in (
        ("tuned", "sft", "train"),
        ("judge", "reward", "tuned"),
        ("aligned", "dpo", "tuned"),
    ):
        training, spec = trainings[name], made[name].spec
        assert (training.program, training.tokenizer, training.template) == (program, tokenizer, CHAT_1.digest)
        assert training.initial is not None
        assert training.initial.state_digest == results[initial].content_digest
        assert training.initial.checkpoint == spec.initial
        assert spec.tokenizer_key == f"tokenization/tokenizers/{tokenizer.removeprefix('blake3:')}.json"
        assert spec.dataset_digest == training.dataset
    assert (tuned.model, trainings["aligned"].model) == (base.model, base.model)
    assert (trainings["judge"].model.scalar_head, base.model.scalar_head) == (True, False)
    assert (tuned.part, trainings["judge"].part) == ("train", "")
    assert (made["tuned"].spec.source, made["judge"].spec.source) == (results["demos"].resource, "preferences/p")
    assert tuned.program_parameters == SftParameters(0.05)
    assert trainings["judge"].program_parameters == RewardParameters(0.05, "mean")
    assert trainings["aligned"].program_parameters == DpoParameters(0.05, 0.2)
    (reference,) = trainings["aligned"].models
    assert (reference.role, reference.state_digest) == ("reference", results["tuned"].content_digest)
    assert [each.checkpoint for each in made["aligned"].spec.models] == [reference.checkpoint]


def test_the_summary_of_a_reward_model_says_how_well_it_predicts_what_is_held_out(world: World) -> None:
    run, _ = finished(world)
    summaries = {each.name: each.summary for each in run.stages}
    for name in ("judge", "aligned"):
        assert "on 13 held-out samples: accuracy 75.0% (46.8% to 91.1%, n = 12)" in summaries[name]
        assert "894 of 907 samples were left out" in summaries[name]
    assert "held-out" not in summaries["tuned"]
    assert "894 of 907" in summaries["tuned"]


def test_the_loss_in_the_summary_of_a_training_is_the_mean_of_its_newest_steps(world: World) -> None:
    run, _ = finished(world)
    summaries = {each.name: each.summary for each in run.stages}
    for name in ("train", "tuned"):
        assert "loss 2.5000, mean of the last 4 steps" in summaries[name]


def test_epochs_become_steps_by_the_samples_that_there_are(world: World) -> None:
    run, _ = finished(world)
    steps = {name: Training.from_json(job.spec.training).steps for name, job in jobs(world, run).items()}
    assert steps["tuned"] == 12
    assert steps["judge"] == -(-3 * PAIRS // 4)  # 8 rows are 4 pairs, and 3 epochs the default
    assert steps["aligned"] == -(-2 * PAIRS // 8)  # 8 microbatches of one pair


def test_rows_have_the_length_that_is_given_and_at_most_the_context(world: World) -> None:
    run, _ = finished(world)
    assert Training.from_json(jobs(world, run)["tuned"].spec.training).length == 32
    run, done = finished(world, TEXT, "stages.tuned.length=24")
    assert done[0] == "tuned"
    trainings = {name: Training.from_json(job.spec.training) for name, job in jobs(world, run).items()}
    assert (trainings["tuned"].length, trainings["judge"].length) == (24, 32)
    run, _ = finished(world, TEXT, "stages.tuned.length=33")
    assert run.state == STATE_FAILED
    assert "length is 33; expected at most 32, the model's context" in run.reason


def test_what_was_done_is_reused_and_a_changed_key_runs_its_stage_and_what_reads_it(world: World) -> None:
    finished(world)
    assert finished(world)[1] == []
    assert finished(world, TEXT, "stages.aligned.beta=0.3")[1] == ["aligned"]
    assert finished(world, TEXT, "stages.judge.held_out=0.2")[1] == ["judge"]
    assert finished(world, TEXT, "stages.tuned.seed=3")[1] == ["tuned", "aligned", "judge"]
    assert finished(world, TEXT, "stages.aligned.ranks=4")[1] == []  # changes no bit of the result


def test_a_tokenizer_without_role_tokens_is_refused_with_the_remedy(world: World) -> None:
    world.artefact = of_bytes().artefact
    run, _ = finished(world)
    assert run.state == STATE_FAILED
    assert "stages.tuned.from.initial" in run.reason
    assert "set `template` in the recipe that trains the tokenizer" in run.reason


def test_a_tokenizer_without_role_tokens_is_extended_on_request(world: World) -> None:
    plain, whole = of_bytes(), of_bytes(*CHAT_1.tokens)
    world.artefact = plain.artefact
    run, _ = finished(world, TEXT, "stages.tuned.convert=reserved@1")
    assert run.state == STATE_DONE
    trainings = {name: Training.from_json(job.spec.training) for name, job in jobs(world, run).items()}
    tuned, vocabulary = trainings["tuned"], trainings["train"].model.vocabulary
    assert tuned.conversion == Conversion(plain.version, plain.vocabulary, 3)
    assert (tuned.tokenizer, tuned.model.vocabulary) == (whole.version, max(vocabulary, whole.vocabulary))
    assert world.blobs.get(jobs(world, run)["tuned"].spec.tokenizer_key) == whole.artefact
    for name in ("judge", "aligned"):  # they go on with what the conversion made
        assert (trainings[name].tokenizer, trainings[name].conversion) == (whole.version, None)
    assert finished(world, TEXT, "stages.tuned.convert=reserved@1")[1] == []


def test_a_tokenizer_that_has_the_role_tokens_is_not_extended(world: World) -> None:
    finished(world)
    run, done = finished(world, TEXT, "stages.tuned.convert=reserved@1")
    assert done == []
    assert Training.from_json(jobs(world, run)["tuned"].spec.training).conversion is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("stages.aligned.rows=3", "a multiple of 2: the two answers of a pair"),
        ("stages.tuned.epochs=2", "12 steps, 2 epochs"),
        ("stages.tuned.ranks=9", r"at most stages\.tuned\.microbatches \(8\)|at most sft.microbatches \(8\)"),
        ("stages.judge.batch=7", "times a whole number"),
        ("stages.tuned.warmup=13", "at most .*steps"),
        ("stages.judge.pooling=sum", "pooling"),
        ("stages.aligned.beta=0", "beta"),
        ("stages.tuned.held_out=1", "held_out"),
    ],
)
def test_keys_that_do_not_fit_are_refused_before_anything_starts(change: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        read(TEXT, [change])


def test_a_tokenizer_of_the_recipe_that_will_lack_the_role_tokens_is_refused_before_anything_starts() -> None:
    changes = ["tokenizer.reserve=false"]
    with pytest.raises(InvalidField, match=r"tokenizer\.reserve: expected true, or a stage sft with convert"):
        read(TEXT, changes)
    assert read(TEXT, [*changes, "stages.tuned.convert=reserved@1"])


def test_a_checkpoint_without_the_role_tokens_is_refused_before_anything_starts(world: World) -> None:
    world.artefact = of_bytes().artefact
    run, _ = finished(world, BASE.replace("template: chat@1\n", ""))
    name = checkpoint_of(run.stages[-1].manifest_key)
    stages = f"stages: {{next: {{kind: reward, from: {{initial: {name}, preferences: preferences/p}}}}}}"
    request = CheckRecipeRequest(recipe=f"{BASE}{stages}", directory=str(world.folder), all_problems=True)
    found = world.api.CheckRecipe(request, CALL).problems
    assert [each.key for each in found if each.key.startswith("stages.next")] == ["stages.next.from.initial"]
    assert "role tokens" in found[-1].expected


def test_a_recipe_without_a_template_cannot_tune(world: World) -> None:
    with pytest.raises(InvalidField, match=r"template: expected one of chat@1"):
        read(TEXT.replace("template: chat@1\n", ""))


def test_preferences_cannot_be_demonstrations_and_a_dataset_is_neither() -> None:
    with pytest.raises(InvalidField, match=r"preferences/p, a preferences|conversations"):
        read(TEXT.replace("demonstrations: demos.train", "demonstrations: preferences/p"))
    with pytest.raises(InvalidField, match="tokenization"):
        read(TEXT.replace("preferences: preferences/p}, batch", "preferences: tokenization}, batch"))


@pytest.mark.parametrize("state", [CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED])
@pytest.mark.parametrize(
    "stage",
    [
        "{kind: sample, from: NAME, prompts: [one]}",
        "{kind: reward, from: {initial: NAME, preferences: preferences/p}}",
    ],
)
def test_a_checkpoint_that_is_no_longer_committed_answers_nothing_and_teaches_nothing(
    world: World, stage: str, state: CheckpointState.ValueType
) -> None:
    run, _ = finished(world, BASE)
    name = checkpoint_of(run.stages[-1].manifest_key)
    text = f"{BASE}stages: {{next: {stage.replace('NAME', name)}}}"
    assert finished(world, text)[1] == ["next"]
    world.train.made[name].state = state
    word = CheckpointState.Name(state).removeprefix("CHECKPOINT_STATE_").lower()
    with pytest.raises(InvalidField, match=rf"{name}, which is {word}"):
        create(world, text.replace("[one]", "[two]"))


def test_an_empty_part_is_refused_when_the_stage_begins(world: World) -> None:
    name = create(world, TEXT).name
    world.finish("ingest", "filter", "dedup", "tokenization", "train")
    made: Any = world.conversations.made
    for each in made.values():
        for share in each.spec.split:
            share.name = {"train": "other"}.get(share.name, share.name)
    world.finish("conversations")
    run = world.run(name)
    assert run.state == STATE_FAILED
    assert "stages.tuned.from.demonstrations" in run.reason
    assert "parts" in run.reason


def test_what_a_stage_needs_is_known_by_its_steps_and_not_before_the_samples_are() -> None:
    every = {node.name: node for node in graph.nodes(read(TEXT))}
    tuned, judge = every["tuned"], every["judge"]
    assert tuned.stage.amount(tuned.view, 0) == 12 * 8 * 4
    assert tuned.stage.unforeseeable(tuned.view) == ""
    assert "how many samples" in judge.stage.unforeseeable(judge.view)
