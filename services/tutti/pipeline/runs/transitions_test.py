"""Runs: stage by stage, once each, whatever happens on the way."""

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import AlreadyExists, DeadlineExceeded, InvalidField, Unavailable
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED, Checkpoint
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    STATE_PENDING,
    STATE_RUNNING,
    CancelRequest,
    ListRequest,
)
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, Run, Stage
from tutti.contracts.scheduler.v1 import JOB_STATE_CANCELLED, Job
from tutti.corpus.documents.stages import DedupBody
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.reading import read
from tutti.pipeline.runs import transitions
from tutti.pipeline.world_test import CALL, RECIPE, World
from tutti.records.manifest import Kind, Manifest

STAGES = ["ingest", "filter", "dedup", "tokenization", "train"]
ENDING = ("index=true", "sample.prompts=The, A")
SITE = ("input.path=", "input.crawl.seeds=http://a.example/", "input.crawl.contact=me@a.example")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def again(world: World, *overrides: str) -> list[str]:
    """Run the recipe again; the stages that were not reused, and so were done."""
    run = world.create(*overrides)
    done: list[str] = []
    while (now := world.run(run.name)).state == STATE_RUNNING:
        stage = next(stage.name for stage in now.stages if stage.state == STATE_RUNNING)
        done.append(stage)
        world.finish(stage)
    assert world.run(run.name).state == STATE_DONE
    assert [stage.name for stage in world.run(run.name).stages if not stage.reused] == done
    return done


def test_stages_follow_each_other_and_each_gets_the_result_before(world: World) -> None:
    name = world.create().name
    for at, stage in enumerate(STAGES):
        states = [each.state for each in world.run(name).stages]
        assert states == [STATE_DONE] * at + [STATE_RUNNING] + [STATE_PENDING] * (4 - at)
        world.finish(stage)
    run = world.run(name)
    assert run.state == STATE_DONE
    dedup, job = next(iter(world.dedup.made.values())), next(iter(world.train.made.values()))
    assert dedup.spec.manifest_key == run.stages[1].manifest_key
    assert dedup.spec.near == 0.8
    assert job.spec.dataset_digest == run.stages[3].content_digest
    assert run.stages[4].content_digest == job.state_digest
    assert run.stages[4].resource == job.name


def test_what_an_owner_waits_for_is_shown(world: World) -> None:
    name = world.create().name
    world.pass_time(31)
    assert world.run(name).stages[0].reason == "waits for a worker"


def test_a_finished_recipe_runs_again_and_reuses_everything(world: World) -> None:
    assert again(world) == STAGES
    assert again(world) == []
    names = [run.name for run in world.api.ListRuns(ListRequest(), CALL).runs]
    assert [name.rpartition("-")[2] for name in names] == ["1", "2"]


@pytest.mark.parametrize(
    ("override", "done"),
    [
        ("train.steps=30", ["train"]),
        ("train.seed=5", ["train"]),
        ("train.ranks=3", []),
        ("engine=ray", []),
        ("name=other", []),
        ("tokenizer.vocabulary=300", ["tokenization", "train"]),
        ("input.limit=7", ["ingest"]),
        ("quality.rules=c4", STAGES[1:]),
        ("quality.languages=en, de", ["filter"]),
        ("quality.thresholds.c4_least_sentences=2.5", ["filter"]),
        ("dedup.near=0.9", ["dedup"]),
    ],
)
def test_only_what_a_change_touches_is_done_again(world: World, override: str, done: list[str]) -> None:
    again(world)
    assert again(world, override) == done


def test_a_recipe_with_a_crawl_begins_with_it(world: World) -> None:
    assert again(world, *SITE) == ["crawl", *STAGES]
    (ingest,) = world.ingest.made.values()
    (crawl,) = world.crawls.made.values()
    assert (ingest.spec.manifest_key, ingest.spec.input_path) == (crawl.result.manifest_key, "")


@pytest.mark.parametrize(
    ("override", "done"),
    [
        ("input.crawl.delay_seconds=3", []),
        ("input.crawl.connect.a.example=127.0.0.1:80", []),
        ("input.crawl.edition=2", ["crawl", "ingest"]),
        ("input.crawl.allow_private=true", ["crawl", "ingest"]),
        ("input.crawl.pages=7", ["crawl", "ingest"]),
        ("input.max_file_bytes=7", ["ingest"]),
    ],
)
def test_a_site_is_visited_again_when_it_is_asked_for_otherwise(world: World, override: str, done: list[str]) -> None:
    again(world, *SITE)
    assert again(world, *SITE, override) == done
    assert again(world, *SITE) == []


CLEAN = ("dedup.decontaminate.path=asked",)


def test_a_recipe_with_evaluation_texts_reads_them_for_dedup_alone(world: World) -> None:
    plain = again(world)
    assert again(world, *CLEAN) == ["evaluation", "dedup"], "in this world dedup makes the same of both"
    assert again(world, *CLEAN) == []
    texts, dedup = list(world.ingest.made.values())[-1], list(world.dedup.made.values())[-1]
    assert dedup.spec.evaluation.content_digest == texts.result.content_digest
    assert (dedup.spec.evaluation_words, dedup.spec.evaluation_share) == (13, 0)
    assert again(world, *CLEAN, "dedup.decontaminate.words=8") == ["dedup"]
    assert again(world, *CLEAN, "dedup.decontaminate.text_field=question") == ["evaluation"]
    world.page("b.txt", "another", "asked")
    assert again(world, *CLEAN) == ["evaluation", "dedup"]
    assert (plain, again(world)) == (STAGES, []), "who does without uses what was made"


def test_where_evaluation_texts_lie_is_recorded_nowhere_but_in_the_private_table(world: World) -> None:
    run = world.create(*CLEAN)
    assert b"asked" not in world.told()
    assert world.create(*CLEAN).name == run.name, "it goes on"
    for wrong in ("nowhere", "a\0b"):
        with pytest.raises(InvalidField, match=r"dedup\.decontaminate\.path"):
            world.create(f"dedup.decontaminate.path={wrong}")
    world.page("b.txt", "another", "asked")
    assert world.create(*CLEAN).name != run.name


def test_dedup_is_told_of_which_documents_an_earlier_dataset_was_made(world: World) -> None:
    first = world.create()
    world.finish()
    (made,) = world.tokenization.made.values()
    world.page("b.html", "more")
    assert again(world, f"dedup.against={made.dataset}") == STAGES
    (against,) = list(world.dedup.made.values())[-1].spec.against
    assert against.content_digest == world.run(first.name).stages[2].content_digest == made.spec.content_digest
    assert again(world, f"dedup.against={made.dataset},{made.dataset}") == []
    assert again(world) == ["dedup"]
    for wrong in ("datasets/unheard-of", "jobs/1"):
        with pytest.raises(InvalidField, match=r"dedup\.against"):
            world.create(f"dedup.against={wrong}")


@pytest.mark.parametrize("gone", [0, 1])
def test_dedup_compares_with_the_documents_of_an_earlier_dataset_that_are_there(world: World, gone: int) -> None:
    """Two runs made the dataset, of documents in other shards."""
    again(world)
    world.page("b.html", "more")
    again(world)
    made = [world.tokenization.made[name] for name in sorted(world.tokenization.made)]
    made[1].dataset = made[0].dataset
    lost = DedupBody.read(Manifest.decode(world.blobs.get(made[gone].spec.manifest_key), expected=Kind.DEDUP))
    world.blobs.delete(lost.shards[0].blob)
    world.page("c.html", "still more")
    again(world, f"dedup.against={made[0].dataset}")
    (against,) = list(world.dedup.made.values())[-1].spec.against
    assert against.content_digest == made[1 - gone].spec.content_digest


def test_a_check_says_what_would_be_read_and_compared(world: World) -> None:
    again(world)
    request = CheckRecipeRequest(recipe=RECIPE, overrides=CLEAN, directory=str(world.folder))
    stages = world.api.CheckRecipe(request, CALL).stages
    assert {stage.name: stage.reused for stage in stages} == {
        **dict.fromkeys(["ingest", "filter"], True),
        **dict.fromkeys(["evaluation", "dedup", "tokenization", "train"], False),
    }


def test_a_recipe_can_end_with_an_index_and_a_sample(world: World) -> None:
    assert again(world, *ENDING) == [*STAGES, "index", "sample"]
    (run,) = world.api.ListRuns(ListRequest(), CALL).runs
    (index,), (sample,) = world.indexes.made.values(), world.sampling.made.values()
    assert (index.spec.manifest_key, index.spec.content_digest) == (
        run.stages[3].manifest_key,
        run.stages[3].content_digest,
    )
    assert sample.spec.checkpoint == f"checkpoints/{run.stages[4].resource.removeprefix('jobs/')}/0/10"
    assert (list(sample.spec.prompts), sample.spec.tokens, sample.spec.temperature) == (["The", "A"], 64, 1.0)


@pytest.mark.parametrize(
    ("overrides", "done"),
    [
        (("index=true",), ["index"]),
        (("sample.prompts=The",), ["sample"]),
        ((*ENDING, "train.steps=30"), ["train", "index", "sample"]),
    ],
)
def test_what_a_run_ends_with_changes_no_key_of_what_was_done_before(
    world: World, overrides: tuple[str, ...], done: list[str]
) -> None:
    again(world)
    assert again(world, *overrides) == done


@pytest.mark.parametrize(
    ("override", "done"),
    [
        ("sample.tokens=7", ["sample"]),
        ("sample.prompts=The", ["sample"]),
        ("sample.seed=1", ["sample"]),
        ("train.ranks=3", []),
        ("train.seed=5", ["train"]),  # the state is what the owner's world always gives, so its texts are too
        ("tokenizer.vocabulary=300", ["tokenization", "train", "index"]),
    ],
)
def test_an_index_follows_from_its_dataset_and_a_sample_from_the_state(
    world: World, override: str, done: list[str]
) -> None:
    again(world, *ENDING)
    assert again(world, *ENDING, override) == done


@pytest.mark.parametrize(
    ("pattern", "stage"),
    [
        ("tokenization/indexes/manifests/*", "index"),
        ("tokenization/indexes/*.spans", "index"),
        ("sampling/manifests/*", "sample"),
    ],
)
def test_with_a_blob_of_what_a_run_ends_with_deleted_that_stage_runs_again(
    world: World, pattern: str, stage: str
) -> None:
    again(world, *ENDING)
    world.blobs.delete(blob(world, pattern))
    assert again(world, *ENDING) == [stage]
    assert again(world, *ENDING) == []


@pytest.mark.parametrize("stage", ["index", "sample"])
def test_a_run_that_is_cancelled_near_its_end_ends_that_stage_at_its_owner(world: World, stage: str) -> None:
    name = world.create(*ENDING).name
    world.finish(*STAGES, *(["index"] if stage == "sample" else []))
    world.start()
    world.api.CancelRun(CancelRequest(name=name), CALL)
    world.settle()
    owner = {"index": world.indexes, "sample": world.sampling}[stage]
    assert [work.state for work in owner.made.values()] == [STATE_CANCELLED]


def test_what_the_owner_of_samples_refuses_is_named_by_its_key_before_anything_runs(world: World) -> None:
    with pytest.raises(InvalidField, match="1 to 100 tokens") as refused:
        world.create(*ENDING, "sample.tokens=101")
    assert refused.value.field == "sample.tokens"


def test_a_check_says_what_each_stage_uses_even_where_one_between_runs_again(world: World) -> None:
    again(world, *ENDING)
    request = CheckRecipeRequest(recipe=RECIPE, overrides=[*ENDING, "train.steps=30"], directory=str(world.folder))
    checked = {stage.name: stage.reused for stage in world.api.CheckRecipe(request, CALL).stages}
    assert checked == {**dict.fromkeys(STAGES, True), "train": False, "index": True, "sample": False}


def test_where_hosts_lie_is_recorded_nowhere_but_in_the_private_table(world: World) -> None:
    world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4821")
    (crawl,) = world.crawls.made.values()
    assert [(each.host, each.address) for each in crawl.spec.connect] == [("a.example", "127.0.0.1:4821")]
    assert b"127.0.0.1" not in world.told()


def places(world: World) -> list[str]:
    (crawl,) = world.crawls.made.values()
    return [each.address for each in crawl.spec.connect]


def test_an_unfinished_run_goes_on_wherever_the_hosts_of_its_crawl_lie_by_now(world: World) -> None:
    name = world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4821").name
    assert world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4822").name == name
    assert places(world) == ["127.0.0.1:4822"]
    world.finish("crawl", "ingest")
    assert world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4823").name == name
    assert world.create(*SITE, "input.crawl.pages=3").name != name


def test_a_crawl_that_was_not_asked_for_yet_is_asked_for_where_its_hosts_lie_by_now(world: World) -> None:
    world.ingest.crawls.down = Unavailable("not now")
    world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4821")
    assert not world.crawls.made
    world.ingest.crawls.down = None
    world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4822")
    assert places(world) == ["127.0.0.1:4822"]


def test_another_repetition_moves_no_host_back(world: World) -> None:
    first = world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4821").name
    world.api.CancelRun(CancelRequest(name=first), CALL)
    second = world.create(*SITE, "input.crawl.connect.a.example=127.0.0.1:4822").name
    assert world.api.CreateRun(CreateRunRequest(again=first), CALL).run.name == second
    assert [each.spec.connect[0].address for each in world.crawls.made.values()][1:] == ["127.0.0.1:4822"]


def test_what_the_owner_of_crawls_refuses_is_named_by_its_key(world: World) -> None:
    with pytest.raises(InvalidField, match=r"input\.crawl\.seeds"):
        world.create(*SITE, "input.crawl.seeds=ftp://a.example/")


def test_changed_pages_are_read_again(world: World) -> None:
    again(world)
    world.page("b.html", "two")
    assert again(world) == STAGES


def test_a_new_logic_version_of_an_owner_runs_its_stage_again(world: World) -> None:
    again(world)
    world.dedup.version = "2"
    assert again(world) == ["dedup"]


BLOBS = {
    "ingest/document-shards/*": "ingest",
    "ingest/manifests/*": "ingest",
    "ingest/rejections/*": "ingest",
    "ingest/measures/*": "ingest",
    "ingest/filters/manifests/*": "filter",
    "ingest/decisions/*": "filter",
    "dedup/manifests/*": "dedup",
    "dedup/clusters/*": "dedup",
    "tokenization/token-shards/*": "tokenization",
    "tokenization/tokenizers/*": "tokenization",
    "tokenization/manifests/*": "tokenization",
    "committer/manifests/*.0.5.json": "train",
    "committer/manifests/*.0.10.json": "train",
    "trainer/shards/*.0.10.1.0.bin": "train",
}
# Of a checkpoint before the last, whose bytes are no result, the size.
SIZED = {"trainer/shards/*.0.5.1.0.bin": "train"}


def blob(world: World, pattern: str) -> str:
    """The one key like this."""
    prefix = pattern.partition("*")[0]
    (found,) = [each.key for each in world.blobs.list(prefix) if fnmatch(each.key, pattern)]
    return found


def first_again(world: World) -> tuple[str, str]:
    """The first stage that would not be reused, and why."""
    request = CheckRecipeRequest(recipe=RECIPE, directory=str(world.folder))
    stage = next(stage for stage in world.api.CheckRecipe(request, CALL).stages if not stage.reused)
    return stage.name, stage.reason


@pytest.mark.parametrize(("pattern", "stage"), (BLOBS | SIZED).items())
def test_with_a_blob_deleted_its_stage_runs_again(world: World, pattern: str, stage: str) -> None:
    again(world)
    key = blob(world, pattern)
    world.blobs.delete(key)
    assert first_again(world) == (stage, f"runs again: {key} is gone")
    assert again(world) == [stage]
    assert again(world) == []


@pytest.mark.parametrize(("pattern", "stage"), BLOBS.items())
def test_with_a_byte_flipped_its_stage_runs_again_and_mends_it(world: World, pattern: str, stage: str) -> None:
    again(world)
    key = blob(world, pattern)
    whole = world.blobs.get(key)
    world.blobs.delete(key)
    world.blobs.put_if_absent(key, bytes([whole[0] ^ 1]) + whole[1:])
    name, reason = first_again(world)
    assert name == stage
    assert reason.startswith(f"runs again: {key} ")
    assert again(world) == [stage]
    assert stage == "train" or world.blobs.get(key) == whole
    assert again(world) == []


@pytest.mark.parametrize(("pattern", "stage"), SIZED.items())
def test_with_a_byte_too_few_its_stage_runs_again(world: World, pattern: str, stage: str) -> None:
    again(world)
    key = blob(world, pattern)
    whole = world.blobs.get(key)
    world.blobs.delete(key)
    world.blobs.put_if_absent(key, whole[:-1])
    assert first_again(world) == (stage, f"runs again: {key} has {len(whole) - 1} bytes, expected {len(whole)}")
    assert again(world) == [stage]


@pytest.mark.parametrize("state", [CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED])
def test_a_checkpoint_on_the_way_that_is_promised_no_more_is_not_missed(world: World, state: Any) -> None:
    again(world)
    (first,) = [each for each in world.train.made.values() if isinstance(each, Checkpoint) and each.step == 5]
    first.state = state
    world.blobs.delete(blob(world, "trainer/shards/*.0.5.1.0.bin"))
    world.blobs.delete(first.manifest_key)
    assert again(world) == []


def test_a_result_that_its_owner_lost_is_made_again(world: World) -> None:
    again(world)
    world.tokenization.made.clear()
    assert again(world) == ["tokenization"]


def test_a_result_whose_row_is_damaged_at_its_owner_is_made_again(world: World) -> None:
    again(world)
    (name,) = world.tokenization.made
    world.tokenization.damaged.add(name)
    checked = world.api.CheckRecipe(CheckRecipeRequest(recipe=RECIPE, directory=str(world.folder)), CALL).stages
    assert checked[3].reason == f"runs again: the row '{name}' is damaged"
    assert again(world) == ["tokenization"]


def test_a_training_of_whose_checkpoints_a_row_is_damaged_is_made_again(world: World) -> None:
    again(world)
    (first,) = [each.name for each in world.train.made.values() if isinstance(each, Checkpoint) and each.step == 5]
    world.train.damaged.add(first)
    assert first_again(world) == ("train", f"runs again: the row '{first}' is damaged")


def test_a_damaged_row_of_work_that_is_waited_for_fails_the_run(world: World) -> None:
    name = world.create().name
    (ingest,) = world.ingest.made
    world.ingest.damaged.add(ingest)
    world.pass_time(60)
    assert world.run(name).state == STATE_FAILED
    assert world.run(name).reason == f"ingest: the row '{ingest}' is damaged"


def test_what_a_run_of_version_0_1_read_is_what_its_dedup_works_on() -> None:
    names = ("ingest", "dedup", "tokenization", "train")
    run = Run(stages=[Stage(name=name, state=STATE_PENDING) for name in names])
    run.stages[0].state, run.stages[0].manifest_key = STATE_DONE, "ingest/manifests/a.json"
    every = {node.name: node for node in graph.nodes(read(RECIPE))}
    found = {name: every[name].given(transitions.results(run)) for name in names}
    keys = {name: [each.manifest_key for each in inputs.get("documents", ())] for name, inputs in found.items()}
    assert keys == {"ingest": [], "dedup": ["ingest/manifests/a.json"], "tokenization": [], "train": []}


def test_an_unfinished_run_of_the_same_recipe_is_resumed(world: World) -> None:
    first = world.create()
    world.finish("ingest")
    assert world.create().name == first.name
    assert world.create("train.steps=30").name != first.name


def test_a_repeated_request_is_the_same_run_and_another_body_is_refused(world: World) -> None:
    first = world.create(request_id="r1")
    world.finish()
    assert world.run(first.name).state == STATE_DONE
    assert world.create(request_id="r1").name == first.name
    with pytest.raises(AlreadyExists):
        world.create("train.steps=30", request_id="r1")


def test_a_run_can_be_named(world: World) -> None:
    assert world.create(name="runs/mine").name == "runs/mine"
    with pytest.raises(AlreadyExists):
        world.create("train.steps=30", name="runs/mine")
    with pytest.raises(InvalidField, match="runs/ID"):
        world.create(name="jobs/mine")


@pytest.mark.parametrize("stage", STAGES)
def test_a_pipeline_that_restarts_anywhere_asks_for_nothing_twice(world: World, stage: str) -> None:
    name = world.create().name
    for each in STAGES:
        if each == stage:
            world.start()
            world.settle()
        world.finish(each)
    assert world.run(name).state == STATE_DONE
    owners = (world.ingest, world.dedup, world.tokenization)
    assert [len(owner.made) for owner in owners] == [1, 1, 1]
    assert len([job for job in world.train.made.values() if isinstance(job, Job)]) == 1


def test_a_create_whose_answer_was_lost_has_its_effect_once(world: World) -> None:
    world.dedup.forgets = True
    name = world.create().name
    world.finish("ingest", "filter")
    world.pass_time(31)
    assert len(world.dedup.made) == 1
    world.finish("dedup", "tokenization", "train")
    assert world.run(name).state == STATE_DONE


def test_an_owner_that_is_away_is_waited_for(world: World) -> None:
    world.dedup.down = Unavailable("away")
    name = world.create().name
    world.finish("ingest", "filter")
    world.pass_time(31)
    assert world.dedup.made == {}
    assert world.run(name).state == STATE_RUNNING
    world.dedup.down = None
    world.pass_time(31)
    assert len(world.dedup.made) == 1


def test_missed_events_cost_latency_alone(world: World) -> None:
    world.deaf = True
    name = world.create().name
    for stage in STAGES:
        world.finish(stage)
        world.pass_time(31)
    assert world.run(name).state == STATE_DONE


def test_a_failed_stage_fails_the_run_with_its_reason_and_the_next_run_tries_again(world: World) -> None:
    name = world.create().name
    world.fail_ingest("none of the 3 files could be read as text")
    run = world.run(name)
    assert run.state == STATE_FAILED
    assert run.reason == "ingest: none of the 3 files could be read as text"
    assert run.stages[0].state == STATE_FAILED
    assert world.create().name != name


def test_a_failed_job_fails_the_run(world: World) -> None:
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    world.fail_train("5 attempts without a new checkpoint")
    assert world.run(name).reason == "train: 5 attempts without a new checkpoint"


def test_an_owner_that_refuses_fails_the_run(world: World) -> None:
    world.dedup.down = InvalidField("spec.manifest_key", seen="x", expected="a manifest")
    name = world.create().name
    world.finish("ingest", "filter")
    assert world.run(name).state == STATE_FAILED
    assert world.run(name).reason.startswith("dedup: spec.manifest_key: expected a manifest")


def test_a_cancelled_run_ends_its_stage_at_its_owner(world: World) -> None:
    name = world.create().name
    world.finish("ingest", "filter", "dedup", "tokenization")
    world.train.down = Unavailable("away")
    run = world.api.CancelRun(CancelRequest(name=name), CALL)
    assert (run.state, run.stages[4].state) == (STATE_CANCELLED, STATE_CANCELLED)
    world.settle()
    world.train.down = None
    world.start()
    world.pass_time(31)
    (job,) = [job for job in world.train.made.values() if isinstance(job, Job)]
    assert job.state == JOB_STATE_CANCELLED
    before = len(world.train.calls)
    world.pass_time(31)
    assert len(world.train.calls) == before
    assert world.api.CancelRun(CancelRequest(name=name), CALL) == run


def test_a_stage_that_somebody_cancelled_cancels_the_run(world: World) -> None:
    name = world.create().name
    resource = world.run(name).stages[0].resource
    world.ingest.cancel(CancelRequest(name=resource))
    world.hear(world.ingest.made[resource])
    assert world.run(name).state == STATE_CANCELLED
    assert world.run(name).reason == f"{resource} was cancelled"


@pytest.mark.parametrize(
    ("overrides", "directory", "field", "words"),
    [
        (["input.path=nowhere"], None, "input.path", "is not there"),
        (["input.path=empty"], None, "input.path", "this one is empty"),
        ([], "relative", "directory", "absolute path"),
        ([], "", "directory", "absolute path"),
        (["train.ranks=9"], None, "train.ranks", "at most train.microbatches"),
        (["tokenizer.pattern=("], None, "tokenizer.pattern", "regular expression that compiles"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_recorded(
    world: World, overrides: list[str], directory: str | None, field: str, words: str
) -> None:
    (world.folder / "empty").mkdir()
    where = str(world.folder) if directory is None else directory
    with pytest.raises(InvalidField, match=words) as refused:
        world.api.CreateRun(CreateRunRequest(recipe=RECIPE, overrides=overrides, directory=where), CALL)
    assert refused.value.field == field
    assert list(world.api.ListRuns(ListRequest(), CALL).runs) == []


def test_pages_that_take_longer_to_read_than_the_caller_waits_are_named(world: World) -> None:
    world.ingest.down = DeadlineExceeded("DigestInput had no answer")
    with pytest.raises(DeadlineExceeded, match="pages in pages were not read within 9 s; nothing was recorded"):
        world.create()


def test_validate_only_records_nothing(world: World) -> None:
    assert world.create(validate_only=True).spec.title == "test"
    assert list(world.api.ListRuns(ListRequest(), CALL).runs) == []


def test_a_recipe_can_be_checked_before_anything_ran(world: World) -> None:
    request = CheckRecipeRequest(recipe=RECIPE, directory=str(world.folder))
    checked = world.api.CheckRecipe(request, CALL)
    assert [stage.reused for stage in checked.stages] == [False] * len(STAGES)
    again(world)
    assert [stage.reused for stage in world.api.CheckRecipe(request, CALL).stages] == [True] * len(STAGES)


def test_where_the_pages_lie_is_in_no_run_no_event_and_no_export(world: World) -> None:
    home = "home-of-somebody"
    pages = world.folder / home / "pages"
    shutil.copytree(world.folder / "pages", pages)
    name = world.create(f"input.path={pages}").name
    world.start()
    world.finish()
    run = world.run(name)
    assert run.state == STATE_DONE
    assert json.loads(run.spec.recipe)["input"]["path"] == world.ingest.made[run.stages[0].resource].spec.input_digest
    told = world.told()
    assert name.encode() in told
    assert home.encode() not in told


def test_the_same_pages_elsewhere_make_the_same_recipe(world: World) -> None:
    shutil.copytree(world.folder / "pages", world.folder / "elsewhere")
    first, second = world.create(), world.create("input.path=elsewhere")
    assert first.name != second.name
    assert first.spec == second.spec
    world.page("b.html", "two")
    assert world.create().spec.recipe_digest != first.spec.recipe_digest
