"""The graph of a recipe: its stages, what each reads, and when the work of an earlier run serves again."""

import pytest

from tutti.pipeline.plans import graph
from tutti.pipeline.plans.graph import reuse_of
from tutti.pipeline.plans.reading import read
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes import sugar
from tutti.pipeline.recipes.values import Result, Source

LEAST = "input: {path: pages}\ntrain: {steps: 20}\n"
FOLDER = {"": Source("/pages", "blake3:b", "1")}


@pytest.mark.parametrize(("stage", "same"), [("ingest", True), ("filter", True), ("dedup", False)])
def test_cleaning_is_of_the_key_of_dedup_alone_and_only_where_it_is_asked_for(stage: str, same: bool) -> None:
    documents = {"documents": (Result("dedups/a", "dedup/manifests/a.json", "blake3:a"),)}
    plain, cleaned = (
        reuse_of(node.stage, node.asked(documents if node.reads else {}, FOLDER, "1"))
        for node in (graph.node_of(read(LEAST, [f"quality.clean={each}"]), stage) for each in ("none", "c4"))
    )
    assert (plain.key == cleaned.key) is same
    assert "clean" not in plain.parameters


def test_stages_come_in_order_and_each_names_what_it_reads() -> None:
    asked = ["index=true", "sample.prompts=The", "dedup.decontaminate.path=tests"]
    found = graph.nodes(read(LEAST, asked))
    assert {node.name: dict(node.inputs) for node in found} == {
        "ingest": {},
        "filter": {"documents": ("ingest",)},
        "evaluation": {},
        "dedup": {"documents": ("filter",), "held_out": ("evaluation",)},
        "tokenization": {"documents": ("dedup",), "measures": ("ingest",)},
        "train": {"dataset": ("tokenization",)},
        "index": {"dataset": ("tokenization",)},
        "sample": {"checkpoint": ("train",)},
    }
    assert [node.name for node in found] == [name for name in sugar.STAGES if name != "crawl"]
    assert {node.name: node.folder.key for node in found if node.folder} == {
        "ingest": "input.path",
        "evaluation": "dedup.decontaminate.path",
    }


def test_a_sample_goes_back_to_the_dataset_of_its_training() -> None:
    every = graph.nodes(read(LEAST, ["sample.prompts=The"]))
    back = {node.name: graph.dataset_of(every, node) for node in every}
    assert {name for name, dataset in back.items() if dataset == "tokenization"} == {"tokenization", "train", "sample"}
    assert back["dedup"] == ""


@pytest.mark.parametrize("name", definitions())
def test_every_kind_of_stage_is_named_as_its_module_and_its_roles_are_kinds_of_results(name: str) -> None:
    stage = definitions()[name]
    assert type(stage).__module__ == f"tutti.pipeline.stages.{name}"
    assert stage.result_kind.manifest
    made = {each.result_kind.message for each in definitions().values()}
    assert {role.of for role in stage.roles} <= made
