"""Runs with named stages: two trainings, the second from the first one's checkpoint, and samples of both."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_RUNNING
from tutti.contracts.ingest.v1 import Classifier
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run, Stage
from tutti.contracts.scheduler.v1 import Job
from tutti.model.training import Training
from tutti.pipeline.runs.again_test import repeat
from tutti.pipeline.runs.references import dataset_of
from tutti.pipeline.world_test import CALL, World

TEXT = """
name: two trainings
size: tiny
input: {path: pages}
data: {context: 32}
tokenizer: {vocabulary: 300}
train: {steps: 20}
sample: {prompts: [The]}
stages:
  anneal: {kind: train, from: {initial: train}, steps: 10, learning_rate: 3.0e-4, seed: 1}
  sample-anneal: {kind: sample, from: anneal, prompts: [The]}
"""
NAMES = ["ingest", "filter", "dedup", "tokenization", "train", "sample", "anneal", "sample-anneal"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.training = lambda job: Training.from_json(job.spec.training)
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
        world.finish(stage.kind)
    return run, done


def stages(run: Run) -> dict[str, Stage]:
    return {stage.name: stage for stage in run.stages}


def test_a_second_training_begins_with_the_checkpoint_of_the_first_and_all_is_reused(world: World) -> None:
    run, done = finished(world)
    assert (run.state, done) == (STATE_DONE, NAMES)
    first, second = [job for job in world.train.made.values() if isinstance(job, Job)]
    last = f"checkpoints/{first.name.removeprefix('jobs/')}/0/10"
    assert (first.spec.initial, second.spec.initial) == ("", last)
    began = Training.from_json(second.spec.training).initial
    assert began is not None
    assert (began.checkpoint, began.state_digest) == (last, first.state_digest)
    sampled = [work.spec.checkpoint for work in world.sampling.made.values()]
    assert sampled == [last, f"checkpoints/{second.name.removeprefix('jobs/')}/0/10"]
    again, done = finished(world)
    assert done == []
    assert [each.content_digest for each in again.stages] == [each.content_digest for each in run.stages]


def test_a_run_of_a_hundred_named_stages_has_small_events_since_each_has_what_changed(world: World) -> None:
    samples = "".join(f"  sample-{number}: {{kind: sample, from: anneal, prompts: [The]}}\n" for number in range(98))
    run, _ = finished(world, TEXT + samples)
    assert (run.state, len(run.stages)) == (STATE_DONE, len(NAMES) + 98)
    outbox = world.host.units.tables.outbox
    told = select(outbox.c.payload).where(outbox.c.subject == run.name).order_by(outbox.c.revision)
    payloads = world.host.units.run(lambda unit: [bytes(each) for each in unit.tx.execute(told).scalars()])
    assert max(map(len, payloads)) < 8 * 1024
    events = [Run.FromString(each) for each in payloads]
    assert stages(run) == {stage.name: stage for event in events for stage in event.stages}
    assert (events[-1].state, events[-1].revision) == (run.state, run.revision)


def test_a_run_says_the_kind_the_inputs_and_the_result_of_each_stage(world: World) -> None:
    for run in (finished(world)[0], finished(world)[0]):
        found = stages(run)
        assert [found[name].kind for name in ("train", "anneal", "sample-anneal")] == ["train", "train", "sample"]
        read = {each.role: each.resource for each in found["anneal"].inputs}
        assert read == {"dataset": found["tokenization"].resource, "initial": found["train"].resource}
        assert "steps, loss" in found["anneal"].summary


def test_a_changed_key_of_a_named_stage_runs_it_and_what_reads_it_alone(world: World) -> None:
    finished(world)
    assert finished(world, TEXT, "stages.anneal.seed=2")[1] == ["anneal", "sample-anneal"]
    assert finished(world, TEXT, "stages.sample-anneal.seed=2")[1] == ["sample-anneal"]
    # The second training makes what it made before, here, so its sample is reused.
    assert finished(world, TEXT, "train.seed=5")[1] == ["train", "sample", "anneal"]


def test_a_pipeline_that_is_started_anew_goes_on_with_the_named_stage(world: World) -> None:
    name = create(world).name
    world.finish("ingest", "filter", "dedup", "tokenization", "train", "sample")
    world.start()
    world.settle()
    assert stages(world.run(name))["anneal"].state == STATE_RUNNING
    world.finish("train")
    world.start()
    world.settle()
    world.finish("sample")
    assert world.run(name).state == STATE_DONE
    assert len([job for job in world.train.made.values() if isinstance(job, Job)]) == 2


def test_a_training_and_a_sample_start_from_an_earlier_checkpoint_by_its_name(world: World) -> None:
    run, _ = finished(world)
    (first, *_) = [job for job in world.train.made.values() if isinstance(job, Job)]
    checkpoint = f"checkpoints/{first.name.removeprefix('jobs/')}/0/10"
    text = f"stages: {{sample: {{from: {checkpoint}, prompts: [A]}}}}"
    alone, done = finished(world, text)
    assert (alone.state, done) == (STATE_DONE, ["sample"])
    assert [each.resource for each in alone.stages[0].inputs] == [checkpoint]
    same, done = finished(world, text.replace("[A]", "[The]"))
    assert done == []
    assert same.stages[0].content_digest == stages(run)["sample"].content_digest


def test_a_checkpoint_that_is_not_there_is_refused_by_its_key(world: World) -> None:
    text = "stages: {sample: {from: checkpoints/none/0/1, prompts: [A]}}"
    with pytest.raises(InvalidField, match=r"stages\.sample\.from\.checkpoint: .*tutti checkpoints ls"):
        create(world, text)
    request = CheckRecipeRequest(recipe=text, directory=str(world.folder), all_problems=True)
    assert [each.key for each in world.api.CheckRecipe(request, CALL).problems] == ["stages.sample.from.checkpoint"]


def test_parameters_of_another_model_are_refused_before_they_are_trained_on(world: World) -> None:
    name = create(world, TEXT, "stages.anneal.tied_embeddings=true").name
    world.finish("ingest", "filter", "dedup", "tokenization", "train", "sample")
    run = world.run(name)
    assert run.state == STATE_FAILED
    assert run.reason.startswith("anneal: stages.anneal.from.initial: expected the model of checkpoints/")
    assert "tied" in run.reason


def test_parameters_of_a_model_with_another_width_of_heads_are_refused_too(world: World) -> None:
    run, _ = finished(world, TEXT, "model.head_width=32")
    assert run.state == STATE_DONE
    job = next(job for job in world.train.made.values() if isinstance(job, Job))
    text = TEXT.replace("initial: train", f"initial: checkpoints/{job.name.removeprefix('jobs/')}/0/10")
    refused, _ = finished(world, text)
    assert refused.state == STATE_FAILED
    assert refused.reason.startswith("anneal: stages.anneal.from.initial: expected the model of checkpoints/")
    assert "head_dim 32" in refused.reason


def test_a_prompt_that_a_named_sample_could_not_continue_is_refused_by_its_key(world: World) -> None:
    with pytest.raises(InvalidField, match=r"stages\.sample-anneal\.prompts: .*at most 31 tokens"):
        create(world, TEXT, f"stages.sample-anneal.prompts={'x1' * 16}")
    with pytest.raises(InvalidField, match=r"stages\.sample-anneal\.tokens: .*1 to 100 tokens"):
        create(world, TEXT, "stages.sample-anneal.tokens=101")


def test_a_training_on_an_earlier_dataset_needs_its_context_and_at_least_its_vocabulary(world: World) -> None:
    run, _ = finished(world)
    digest = stages(run)["tokenization"].content_digest
    dataset = f"datasets/{digest.removeprefix('blake3:')}"
    text = "size: tiny\ndata: {context: %d}\ntokenizer: {vocabulary: %d}\n"
    text += f"stages: {{more: {{kind: train, from: {{dataset: {dataset}}}, steps: 2}}}}"
    for context, vocabulary, words in ((64, 300, "data.context: 32"), (32, 299, "tokenizer.vocabulary: 300")):
        failed = world.run(create(world, text % (context, vocabulary)).name)
        assert failed.state == STATE_FAILED
        assert f"stages.more.from.dataset: expected {words}, as in {dataset}" in failed.reason
    assert finished(world, text % (32, 300))[1] == ["more"]


def test_a_plan_forecasts_named_stages_and_knows_no_model_that_it_does_not_train(world: World) -> None:
    run, _ = finished(world)
    job = stages(run)["train"].resource.removeprefix("jobs/")
    alone = f"stages: {{sample: {{from: checkpoints/{job}/0/10, prompts: [A]}}}}"
    for text, name, known in ((alone, "sample", False), (TEXT.replace("[The]", "[A]"), "sample-anneal", True)):
        request = CheckRecipeRequest(recipe=text, directory=str(world.folder), forecast=True)
        found = {each.stage: each for each in world.api.CheckRecipe(request, CALL).forecasts}[name]
        assert found.seconds > 0
        assert found.HasField("memory_bytes") is known


CORPORA = """
name: two corpora
size: tiny
input: {path: pages}
data: {context: 32}
tokenizer: {vocabulary: 300}
train: {steps: 20}
stages:
  other: {kind: ingest, path: asked}
  chosen: {kind: filter, from: other}
  kept: {kind: dedup, from: chosen, near: 0.9}
  tokens: {kind: tokenization, from: kept, vocabulary: 400, context: 16}
  more: {like: train, from: {dataset: tokens}}
"""


def test_a_second_corpus_goes_its_own_way_to_a_training_with_its_own_vocabulary_and_context(world: World) -> None:
    run, done = finished(world, CORPORA)
    named = ["other", "chosen", "kept", "tokens", "more"]
    assert done == ["ingest", "filter", "dedup", "tokenization", "train", *named]
    found = stages(run)
    reads = {name: [each.resource for each in found[name].inputs] for name in named}
    assert reads == {"other": [], **{name: [found[before].resource] for before, name in pairwise(named)}}
    first, second = [Training.from_json(job.spec.training) for job in world.train.made.values() if isinstance(job, Job)]
    assert [(each.model.vocabulary, each.model.context) for each in (first, second)] == [(300, 32), (400, 16)]
    assert second.dataset == found["tokens"].content_digest
    assert (found["other"].input_files, found["ingest"].input_files) == (1, 1)
    assert finished(world, CORPORA)[1] == []


def test_the_folder_of_a_named_stage_is_recorded_by_its_content_and_told_to_nobody(world: World) -> None:
    run, _ = finished(world, CORPORA)
    assert str(world.folder / "asked").encode() not in world.told()
    assert '"path":"blake3:' in run.spec.recipe
    world.page("b.txt", "another question", "asked")
    assert finished(world, CORPORA)[1] == ["other", "chosen", "kept", "tokens", "more"]
    again = world.api.CreateRun(CreateRunRequest(again=run.name), CALL).run
    assert again.spec.recipe == run.spec.recipe


def test_what_one_stage_read_serves_another_of_its_kind(world: World) -> None:
    finished(world, CORPORA)
    assert finished(world, CORPORA.replace("path: asked", "path: pages"))[1] == ["kept", "tokens", "more"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("path: asked", "path: nowhere", "stages.other.path"),
        ("path: asked", "limit: 1", "stages.other.path"),
        ("{kind: filter, from: other}", "{kind: filter, from: other, rules: [x]}", "stages.chosen.rules"),
        ("vocabulary: 400", 'pattern: "("', "stages.tokens.pattern"),
    ],
)
def test_what_is_wrong_with_a_stage_of_data_is_named_by_its_key(world: World, old: str, new: str, key: str) -> None:
    with pytest.raises(InvalidField, match=f"^{key}: "):
        create(world, CORPORA.replace(old, new))
    request = CheckRecipeRequest(recipe=CORPORA.replace(old, new), directory=str(world.folder), all_problems=True)
    assert [each.key for each in world.api.CheckRecipe(request, CALL).problems] == [key]


SITES = """
name: a crawl by name
size: tiny
data: {context: 32}
tokenizer: {vocabulary: 300}
stages:
  news: {kind: crawl, seeds: [http://a.example/], contact: me@a.example, connect: {a.example: 127.0.0.1:4821}}
  pages: {kind: ingest, from: news}
  chosen: {kind: filter, from: pages}
  kept: {kind: dedup, from: chosen}
  tokens: {kind: tokenization, from: kept}
  train: {from: {dataset: tokens}, steps: 20}
"""


def test_a_crawl_by_name_is_read_by_its_ingest_and_its_hosts_may_move(world: World) -> None:
    run, done = finished(world, SITES)
    assert (run.state, done) == (STATE_DONE, ["news", "pages", "chosen", "kept", "tokens", "train"])
    found = stages(run)
    assert [each.resource for each in found["pages"].inputs] == [found["news"].resource]
    (crawl,) = world.crawls.made.values()
    assert [(each.host, each.address) for each in crawl.spec.connect] == [("a.example", "127.0.0.1:4821")]
    assert "127.0.0.1" not in run.spec.recipe
    assert finished(world, SITES.replace("4821", "4822"))[1] == []


def test_what_is_wrong_with_a_crawl_by_name_is_refused_by_its_key(world: World) -> None:
    with pytest.raises(InvalidField, match=r"stages\.news\.seeds: .*a URL"):
        create(world, SITES.replace("http://a.example/", "a.example"))
    with pytest.raises(InvalidField, match=r"stages\.news\.since: .*`tutti crawls ls`"):
        create(world, SITES, "stages.news.since=runs/none")


def test_documents_of_an_earlier_dataset_are_left_out_by_a_named_dedup(world: World) -> None:
    run, _ = finished(world, CORPORA)
    earlier = f"datasets/{stages(run)['tokenization'].content_digest.removeprefix('blake3:')}"
    again, done = finished(world, CORPORA, f"stages.kept.against={earlier}")
    assert done == ["kept"]
    (against,) = list(world.dedup.made.values())[-1].spec.against
    assert against.content_digest == stages(run)["dedup"].content_digest
    assert '"against":' in again.spec.recipe.split('"stages"')[1]
    assert '"against":' not in run.spec.recipe.split('"stages"')[1]
    with pytest.raises(InvalidField, match=r"stages\.kept\.against: .*`tutti datasets ls`"):
        create(world, CORPORA, "stages.kept.against=datasets/none")


def test_a_named_dedup_is_repeated_against_what_an_earlier_dataset_has_become(world: World) -> None:
    earlier, _ = finished(world, CORPORA)
    second, _ = finished(world, CORPORA, f"stages.kept.against={dataset_of(earlier)}")
    assert repeat(world, second.name).spec.recipe == second.spec.recipe, "nothing has changed"
    world.settle()
    world.tokenization.version = "2"  # by which the same documents give another dataset, as without a page
    world.clock.advance(1)
    anew = repeat(world, earlier.name).name
    world.finish("tokenization", "train")
    last = repeat(world, second.name)
    became = dataset_of(world.run(anew))
    assert became != dataset_of(earlier)
    assert json.loads(last.spec.recipe)["stages"]["kept"]["against"] == [became]
    assert last.spec.origin == second.spec.recipe_digest


def test_a_named_ingest_measures_with_classifiers_and_a_filter_rejects_by_them(world: World) -> None:
    digest = "blake3:" + "0" * 64
    world.ingest.classifiers["classifiers/harm"] = Classifier(
        name="classifiers/harm", state=STATE_DONE, model_digest=digest
    )
    create(world, CORPORA, "stages.other.classifiers=harm")
    world.finish("ingest", "filter", "dedup", "tokenization", "train", "ingest", "filter")
    assert [list(each.spec.classifiers) for each in world.ingest.made.values()] == [[], [f"harm@{digest}"]]
    assert [list(each.spec.classifiers) for each in world.ingest.filters.made.values()] == [[], [f"harm@{digest}"]]
    with pytest.raises(InvalidField, match=r"stages\.other\.classifiers: .*`tutti classifiers ls`"):
        create(world, CORPORA, "stages.other.classifiers=none")
