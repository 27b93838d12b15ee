"""What a stage needs, foretold from what was measured: in proportion, with its basis, and nothing made up."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.contracts.pipeline.v1 import Forecast
from tutti.pipeline.definitions.finetuning import FinetuningStage
from tutti.pipeline.definitions.pretraining import parameters
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.forecast import FAR, forecast, nearest, pages
from tutti.pipeline.plans.reading import read
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import TrainPart
from tutti.pipeline.recipes.values import Measure, Source

FIRST_RUN = Path(__file__).parents[4] / "docs" / "first-run.md"
SITE = "input: {crawl: {seeds: [http://a.example/], contact: me@a.example, pages: 30}}\ntrain: {steps: 20}"


@pytest.fixture
def recipe() -> Recipe:
    return read("size: tiny\ninput: {path: pages}\ntrain: {steps: 20, checkpoint_every: 6}\nsample: {prompts: [a, b]}")


def with_key(recipe: Recipe, key: str, value: object) -> Recipe:
    """The recipe with another value of a key of its training."""
    return recipe.model_copy(update={"top": {**recipe.top, "train": recipe.top["train"].changed({key: value})}})


def told(recipe: Recipe, stage: str, files: int = 0, *measured: Measure) -> Forecast:
    return forecast(graph.node_of(recipe, stage), files, measured)


def test_time_and_disk_are_in_proportion_to_the_work(recipe: Recipe) -> None:
    found = told(recipe, "ingest", 300, Measure("runs/a", 2.0, 100, 1000))
    assert (found.seconds, found.disk_bytes) == (6.0, 3000)
    assert found.basis == "by runs/a, work x 3; memory as in each process of benchmarks.reading"


def test_a_file_that_holds_many_texts_is_as_many_pages_as_fill_it() -> None:
    assert pages(Source("a", "d", "v", files=649, nbytes=18_000_000)) == 649
    assert pages(Source("a.jsonl", "d", "v", files=1, nbytes=10_000_000_000)) == 348_432
    assert pages(Source("a", "d", "v")) == 0


def test_a_training_writes_whole_checkpoints_and_needs_no_measure_for_that(recipe: Recipe) -> None:
    found = told(recipe, "train", 0)
    model = parameters(graph.node_of(recipe, "train").view)
    assert found.disk_bytes == 4 * 12 * model
    assert found.memory_bytes > 12 * model
    assert "make run" in found.basis


def test_a_rank_needs_memory_for_its_share_of_the_state_and_all_ranks_for_what_they_need_together(
    recipe: Recipe,
) -> None:
    one, four = (told(with_key(recipe, "ranks", ranks), "train") for ranks in (1, 4))
    assert one.rank_memory_bytes == one.memory_bytes
    assert four.rank_memory_bytes < one.rank_memory_bytes
    assert 0 <= 4 * four.rank_memory_bytes - four.memory_bytes < 4 * 4


def test_a_rank_that_keeps_its_share_of_the_parameters_needs_less(recipe: Recipe) -> None:
    whole = with_key(recipe, "ranks", 8)
    assert (
        told(with_key(whole, "shard", "parameters"), "train").rank_memory_bytes < told(whole, "train").rank_memory_bytes
    )


def test_audits_need_memory_for_one_more_gradient_of_each_rank(recipe: Recipe) -> None:
    view = graph.node_of(recipe, "train").view
    audited, unaudited = (told(with_key(recipe, "audit_every", every), "train", 0) for every in (10, 0))
    assert audited.memory_bytes - unaudited.memory_bytes == 4 * view.section(TrainPart).ranks * parameters(view)


def test_what_is_not_known_is_not_set(recipe: Recipe) -> None:
    crawl = told(read(SITE), "crawl", 0)
    assert "at most 30 visits, those to a host 1 s apart" in crawl.basis
    ingest = told(read(SITE), "ingest", 0, Measure("runs/a", 1, 1, 1))
    for each in (crawl, ingest):
        assert [each.HasField(field) for field in ("seconds", "disk_bytes")] == [False, False]
    assert (
        "for all 30 that it may bring 30.0 s and 270 kB of disk"
        in told(read(SITE), "ingest", 0, Measure("runs/a", 1, 1, 9_000)).basis
    )
    assert told(recipe, "ingest", 0).basis.startswith("not known before its inputs are made")
    assert not told(recipe, "filter", 7).HasField("memory_bytes")


def test_where_nothing_was_measured_here_the_figures_of_make_run_count(recipe: Recipe) -> None:
    for node in graph.nodes(recipe):
        found = forecast(node, 1298, [])
        assert "make run" in found.basis
        assert found.HasField("disk_bytes")
    found = told(recipe, "dedup", 1298)
    assert (found.seconds, found.disk_bytes) == (0.4, 27_800)


def test_the_figures_of_make_run_are_those_of_its_page() -> None:
    (line,) = (line for line in FIRST_RUN.read_text().splitlines() if line.startswith("took "))
    stated = {
        name: 60 * int(minutes or 0) + float(seconds)
        for name, minutes, seconds in re.findall(r"(\w+) (?:(\d+) min )?([\d.]+) s", line)
    }
    assert {name: each.measured.seconds for name, each in definitions().items() if each.measured} == {
        name: seconds for name, seconds in stated.items() if name != "crawl"
    }


def test_memory_grows_with_documents_where_something_of_each_is_kept(recipe: Recipe) -> None:
    few, many = (told(recipe, "dedup", files).memory_bytes for files in (1, 10**6))
    assert many - few == 340 * (10**6 - 1)
    ingest = {told(recipe, "ingest", files).memory_bytes for files in (1, 10**6)}
    assert len(ingest) == 1
    sample = told(recipe, "sample", 0)
    assert sample.memory_bytes == 4 * parameters(graph.node_of(recipe, "train").view)


@pytest.mark.parametrize(("files", "words"), [(5, "comes on top"), (2000, "at most")])
def test_a_measure_of_far_more_or_less_work_says_so(files: int, words: str, recipe: Recipe) -> None:
    assert words in told(recipe, "dedup", files, Measure("runs/a", 2.0, 100)).basis


works = st.floats(1, 1e12)


@given(works, st.lists(works, min_size=1, max_size=5))
def test_the_most_similar_work_counts_and_elsewhere_only_when_all_here_is_far(work: float, here: list[float]) -> None:
    elsewhere = Measure("elsewhere", 1, work)
    chosen = nearest(work, [Measure("here", 1, each) for each in here], elsewhere)
    near = min(max(work / each, each / work) for each in here)
    if chosen is elsewhere:
        assert near > FAR * 0.999
    else:
        assert max(work / chosen.amount, chosen.amount / work) == pytest.approx(near)


def test_every_stage_but_the_crawl_has_an_amount_of_work(recipe: Recipe) -> None:
    for node in graph.nodes(recipe):
        assert node.stage.amount(node.view, 3)
    others = [each for each in definitions().values() if not isinstance(each, FinetuningStage)]
    unmeasured = {each.name for each in others if each.measured is None}
    assert unmeasured <= {
        "campaign",
        "comparison",
        "conversations",
        "crawl",
        "demonstrations",
        "imported",
        "preferences",
        "release",
    }
