"""What a recipe takes of earlier runs: named by content when it is recorded, and refused where it does not fit."""

import json
from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_FAILED
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.tokenization.v1 import Dataset
from tutti.model.training import Training
from tutti.pipeline.plans.reading import read
from tutti.pipeline.runs.transitions_test import SITE, again
from tutti.pipeline.world_test import RECIPE, VOCABULARY, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def made(world: World, *overrides: str) -> tuple[str, Dataset]:
    """A run that has ended, and its dataset."""
    run = world.create(*overrides)
    world.finish()
    return run.name, list(world.tokenization.datasets.values())[-1]


def test_a_tokenizer_is_taken_by_the_name_of_a_run_of_a_dataset_or_its_own(world: World) -> None:
    run, dataset = made(world)
    world.page("b.html", "another page")
    names = (run, run.removeprefix("runs/"), dataset.name, dataset.tokenizer)
    recorded = {world.create(f"tokenizer.of={name}", "train.steps=9").spec.recipe for name in names}
    (recipe,) = map(json.loads, recorded)
    assert recipe["tokenizer"] == {"of": dataset.tokenizer, "vocabulary": VOCABULARY, "pattern": ""}
    world.finish()
    spec = list(world.tokenization.made.values())[-1].spec
    assert (spec.tokenizer, spec.vocabulary) == (dataset.tokenizer, VOCABULARY)
    training = json.loads(list(world.train.made.values())[-3].spec.training)
    assert training["model"]["vocabulary"] == VOCABULARY


def test_with_a_tokenizer_of_its_own_a_run_is_what_it_was(world: World) -> None:
    assert "of" not in json.loads(read(RECIPE).canonical())["tokenizer"]
    again(world)
    run, _ = made(world)
    assert again(world, f"tokenizer.of={run}") == ["tokenization", "train"]
    assert again(world, f"tokenizer.of={run}") == again(world) == []


def test_an_earlier_crawl_is_taken_by_its_name_or_that_of_a_run(world: World) -> None:
    assert "since" not in json.loads(read(RECIPE, SITE).canonical())["input"]["crawl"]
    run = world.create(*SITE).name
    for wrong in ("runs/unheard-of", run):
        with pytest.raises(InvalidField, match=r"input\.crawl\.since"):
            world.create(*SITE, f"input.crawl.since={wrong}")
    world.finish("crawl")
    (crawl,) = world.crawls.made
    names = (run, run.removeprefix("runs/"), crawl)
    recorded = {world.create(*SITE, f"input.crawl.since={name}").spec.recipe for name in names}
    (recipe,) = map(json.loads, recorded)
    assert recipe["input"]["crawl"]["since"] == crawl
    assert list(world.crawls.made.values())[-1].spec.since == crawl


def test_a_tokenizer_that_is_not_there_and_what_contradicts_it_are_refused(world: World) -> None:
    run, _ = made(world)
    unfinished = world.create("data.context=64").name
    for wrong in ("runs/unheard-of", "datasets/0", "tokenizers/0", unfinished):
        with pytest.raises(InvalidField, match=r"tokenizer\.of"):
            world.create(f"tokenizer.of={wrong}")
    with pytest.raises(InvalidField, match=r"tokenizer\.vocabulary"):
        world.create(f"tokenizer.of={run}", "tokenizer.vocabulary=5000")
    with pytest.raises(InvalidField, match=r"tokenizer\.pattern"):
        world.create(f"tokenizer.of={run}", "tokenizer.pattern=.")
    assert world.create(f"tokenizer.of={run}", f"tokenizer.vocabulary={VOCABULARY}")


def pair(world: World) -> tuple[Dataset, Dataset]:
    """Two datasets of one tokenizer, of which the first has three sequences and the second one."""
    _, first = made(world, "train.steps=5")
    first.sequences = 3
    world.page("b.html", "more")
    _, second = made(world, "train.steps=5", f"tokenizer.of={first.name}")
    world.page("c.html", "still more")
    return first, second


def mixed(first: Dataset, *more: str) -> tuple[str, ...]:
    return (f"tokenizer.of={first.name}", f"mixture.datasets.{first.name}=2", *more)


def weights(world: World) -> dict[str, int]:
    """By dataset, as the newest job has them."""
    job = [each for each in world.train.made.values() if isinstance(each, Job)][-1]
    training = Training.from_json(job.spec.training)
    assert [each.digest for each in job.spec.mixed] == list(training.datasets[1:])
    return {f"datasets/{each.dataset.removeprefix('blake3:')}": each.weight for each in training.mixture}


def test_a_job_reads_the_datasets_of_its_mixture_by_weight_or_by_epochs(world: World) -> None:
    first, second = pair(world)
    both = mixed(first, f"mixture.datasets.{second.name}=1", "mixture.own=4")
    assert again(world, *both) == ["ingest", "filter", "dedup", "tokenization", "train"]
    own = list(world.tokenization.datasets.values())[-1]
    assert weights(world) == {own.name: 4, first.name: 2, second.name: 1}
    assert next(iter(weights(world))) == own.name
    assert again(world, *both) == []
    assert again(world, *both, "mixture.by=epochs") == ["train"]
    assert weights(world) == {own.name: 4, first.name: 2 * 3, second.name: 1}
    assert again(world, *mixed(first), "mixture.own=2", "train.steps=20") == ["train"]
    assert weights(world) == {own.name: 1, first.name: 1}, "2 of 4 reads what 1 of 2 reads"
    assert again(world, *mixed(first), f"mixture.datasets.{first.name}=3", "mixture.own=3", "train.steps=20") == []
    assert again(world, f"tokenizer.of={first.name}") == ["train"]
    assert weights(world) == {}, "alone it is the training that it always was"


def test_a_mixture_names_runs_too_and_is_recorded_by_content_in_no_order(world: World) -> None:
    run, dataset = made(world)
    second, other = made(world, f"tokenizer.of={run}", "data.seed=1")
    world.page("b.html", "more")
    orders = ((run, second), (other.name, dataset.name))
    recorded = set()
    for names in orders:
        overrides = [f"mixture.datasets.{name}=1" for name in names]
        recorded.add(world.create(f"tokenizer.of={run}", *overrides).spec.recipe)
    (recipe,) = map(json.loads, recorded)
    assert recipe["mixture"] == {"datasets": {dataset.name: 1, other.name: 1}, "own": 1, "by": "weight"}
    assert "mixture" not in json.loads(read(RECIPE).canonical())


def test_what_cannot_be_mixed_is_refused_before_anything_starts(world: World) -> None:
    first, _ = pair(world)
    for overrides, key in (
        ([f"mixture.datasets.{first.name}=1"], r"tokenizer\.of"),
        (mixed(first, "mixture.own=1.5"), r"mixture\.own"),
        (mixed(first, "mixture.own=70000"), "mixture"),
        (mixed(first, f"mixture.datasets.{first.name}=0"), r"mixture\.datasets"),
        (mixed(first, "mixture.datasets.runs/unheard-of=1"), r"mixture\.datasets"),
        (mixed(first, "data.context=64"), r"mixture\.datasets.*as data\.context says.*context 256"),
    ):
        with pytest.raises(InvalidField, match=key):
            world.create(*overrides)
    first.tokenizer = "tokenizers/another"
    with pytest.raises(InvalidField, match=r"mixture\.datasets.*tokenizers/another"):
        world.create(
            f"tokenizer.of={first.name}", *(f"mixture.datasets.{each}=1" for each in world.tokenization.datasets)
        )


def test_a_run_whose_own_dataset_is_in_its_mixture_says_so(world: World) -> None:
    run, dataset = made(world, f"tokenizer.vocabulary={VOCABULARY}")
    name = world.create(f"tokenizer.of={run}", f"mixture.datasets.{run}=1").name
    world.finish("tokenization")
    assert list(world.tokenization.datasets) == [dataset.name]
    ended = world.run(name)
    assert ended.state == STATE_FAILED
    assert "give mixture.own" in ended.reason
