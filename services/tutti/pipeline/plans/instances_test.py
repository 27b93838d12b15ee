"""Named stages: kinds, roles, keys taken over, order; what is wrong is named by its key."""

from pathlib import Path
from typing import Any

import pytest

from tutti.chassis.errors import InvalidField
from tutti.pipeline.plans import graph
from tutti.pipeline.plans.graph import reuse_of
from tutti.pipeline.plans.reading import examine, parse, read
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import SamplePart, TrainPart
from tutti.pipeline.recipes.values import Result

BASE: dict[str, Any] = {"input": {"path": "pages"}, "train": {"steps": 100, "ranks": 2, "tied_embeddings": True}}
ANNEAL = {"kind": "train", "from": {"initial": "train"}, "steps": 50, "learning_rate": 3e-4}
SAMPLE = {"kind": "sample", "from": "anneal", "prompts": ["The"]}


def recipe(**stages: Any) -> Recipe:
    return parse({**BASE, "stages": {name.replace("_", "-"): body for name, body in stages.items()}})


def inputs(found: Recipe) -> dict[str, dict[str, tuple[str, ...]]]:
    return {node.name: dict(node.inputs) for node in graph.nodes(found)}


def refusals(tree: dict[str, Any]) -> dict[str, str]:
    """What is wrong with stages beside a recipe that trains, by key."""
    found, problems = examine(repr({**BASE, "stages": tree}).replace("True", "true"))
    assert (found is None) == bool(problems)
    return {problem.field: problem.message for problem in problems}


def test_a_stage_occurs_twice_and_follows_what_it_reads() -> None:
    found = recipe(sample_anneal=SAMPLE, anneal=ANNEAL)
    names = ["ingest", "filter", "dedup", "tokenization", "train", "anneal", "sample-anneal"]
    assert [node.name for node in graph.nodes(found)] == names
    assert inputs(found)["anneal"] == {"dataset": ("tokenization",), "initial": ("train",)}
    assert inputs(found)["sample-anneal"] == {"checkpoint": ("anneal",)}
    anneal, sample = found.stages["anneal"].section, found.stages["sample-anneal"].section
    assert isinstance(anneal, TrainPart)
    assert (anneal.steps, anneal.learning_rate, anneal.rows, anneal.warmup, anneal.ranks) == (50, 3e-4, 2, 2, 1)
    assert isinstance(sample, SamplePart)
    assert graph.node_of(found, "anneal").resource("runs/a") != graph.node_of(found, "train").resource("runs/a")


def test_a_recipe_without_named_stages_says_nothing_of_them_and_one_with_them_reads_as_itself() -> None:
    assert "stages" not in parse(BASE).canonical()
    found = recipe(anneal=ANNEAL, sample_anneal=SAMPLE)
    assert read(found.canonical()) == found
    assert read(found.canonical()).digest() == found.digest() != parse(BASE).digest()


def test_like_takes_over_keys_and_inputs_and_its_own_come_first() -> None:
    found = recipe(
        anneal={"like": "train", "from": {"initial": "train"}, "steps": 50},
        again={"like": "anneal", "from": {"initial": "anneal"}},
        other={"kind": "train", "like": "again", "seed": 4},
    )
    sections = {name: each.section.model_dump() for name, each in found.stages.items()}
    assert [sections[name]["ranks"] for name in sections] == [2, 2, 2]
    assert [sections[name]["tied_embeddings"] for name in sections] == [True] * 3
    assert [sections[name]["steps"] for name in sections] == [50, 50, 50]
    assert [found.stages[name].inputs["initial"] for name in sections] == [("train",), ("anneal",), ("anneal",)]
    assert (sections["again"]["seed"], sections["other"]["seed"]) == (0, 4)


def test_stages_may_start_from_earlier_results_alone() -> None:
    checkpoint = "checkpoints/4f1c/0/800"
    found = parse({"stages": {"sample": {"from": checkpoint, "prompts": ["The"]}}})
    assert inputs(found) == {"sample": {"checkpoint": (checkpoint,)}}
    assert read(found.canonical()).digest() == found.digest()
    more = parse(
        {"stages": {"more": {"kind": "train", "from": {"dataset": "datasets/a", "initial": checkpoint}, "steps": 2}}}
    )
    assert inputs(more)["more"] == {"dataset": ("datasets/a",), "initial": (checkpoint,)}


def test_the_recipe_of_the_page_about_named_stages_is_one() -> None:
    section = (Path(__file__).parents[4] / "docs/recipes.md").read_text().partition("## Named stages")[2]
    found = read(section.partition("```yaml\n")[2].partition("```")[0])
    assert list(found.stages) == ["anneal", "sample-anneal"]


def test_a_key_of_a_stage_can_be_overridden() -> None:
    text = "input: {path: pages}\ntrain: {steps: 9}\nstages:\n  anneal: {kind: train, from: train, steps: 3}\n"
    found = read(text, ["stages.anneal.steps=7", "stages.anneal.learning_rate=1e-4", "stages.second.like=anneal"])
    sections = [each.section.model_dump() for each in found.stages.values()]
    assert [(each["steps"], each["learning_rate"]) for each in sections] == [(7, 1e-4), (7, 1e-4)]
    with pytest.raises(InvalidField, match=r"stages\.anneal\.stepz: .*the nearest is steps"):
        read(text, ["stages.anneal.stepz=7"])


def test_a_key_of_a_stage_that_is_like_another_can_be_overridden() -> None:
    text = "input: {path: pages}\ntrain: {steps: 9}\nstages:\n  anneal: {kind: train, from: train, steps: 3}\n"
    text += "  second: {like: anneal, from: {initial: anneal}}\n  third: {like: second}\n"
    found = read(text, ["stages.second.steps=7", "stages.third.learning_rate=1e-4"])
    steps = {name: each.section.model_dump()["steps"] for name, each in found.stages.items()}
    assert steps == {"anneal": 3, "second": 7, "third": 7}
    assert found.stages["third"].section.model_dump()["learning_rate"] == 1e-4
    for like in ("second", "third"):
        with pytest.raises(InvalidField, match=r"stages\.second"):
            read(text, [f"stages.second.like={like}", "stages.second.steps=7"])


@pytest.mark.parametrize(
    ("stages", "key", "words"),
    [
        (
            {"a": {"kind": "sample", "from": {"checkpoint": "b"}, "prompts": ["x"]}},
            "stages.a.from.checkpoint",
            "a stage of this recipe",
        ),
        (
            {"b": {"kind": "train", "from": {"initial": "tokenization"}, "steps": 1}},
            "stages.b.from.initial",
            "a checkpoint",
        ),
        (
            {"b": {"kind": "train", "from": {"policy": "train"}, "steps": 1}},
            "stages.b.from.policy",
            "one of dataset, initial",
        ),
        ({"b": {"kind": "train", "from": "datasets", "steps": 1}}, "stages.b.from", "which role"),
        ({"b": {"kind": "train", "from": {"initial": ["train"]}, "steps": 1}}, "stages.b.from.initial", "not a list"),
        ({"b": {"kind": "train"}}, "stages.b.steps", "--set stages.b.steps="),
        ({"b": {"kind": "train", "steps": 0}}, "stages.b.steps", "at least 1"),
        ({"b": {"kind": "train", "steps": 2, "stepz": 1}}, "stages.b.stepz", "the nearest is steps"),
        ({"b": {"kind": "train", "steps": 2, "batch": 3}}, "stages.b.batch", "times a whole number"),
        ({"b": {"kind": "train", "steps": 2, "warmup": 3}}, "stages.b.warmup", "at most stages.b.steps"),
        ({"b": {"kind": "page", "path": "x"}}, "stages.b.kind", "filter, "),
        ({"b": {"steps": 2}}, "stages.b.kind", "filter, "),
        ({"b": {"like": "c", "steps": 2}}, "stages.b.like", "another stage"),
        ({"b": 3}, "stages.b", "a mapping of keys"),
        ({"B!": {"kind": "train", "steps": 2}}, "stages.B!", "lower-case letters"),
        ({"train": {"steps": 2}}, "stages.train", "another name"),
    ],
)
def test_what_is_wrong_with_a_stage_is_named_by_its_key(stages: dict[str, Any], key: str, words: str) -> None:
    found = refusals(stages)
    assert key in found, found
    assert words in found[key]


def test_stages_that_read_each_other_are_refused() -> None:
    circle = {
        name: {"kind": "train", "from": {"initial": other}, "steps": 2} for name, other in (("a", "b"), ("b", "a"))
    }
    assert list(refusals(circle)) == ["stages"]
    assert "a reads" in refusals(circle)["stages"]


def test_what_fills_a_role_is_part_of_the_key_and_the_name_of_a_stage_is_not() -> None:
    found = recipe(anneal=ANNEAL, twin=ANNEAL)
    dataset = Result("tokenizations/a", "tokenization/a.json", "blake3:a")
    first, other = (Result("jobs/a", f"committer/manifests/a.0.{step}.json", f"blake3:{step}") for step in (5, 10))
    nodes = [graph.node_of(found, name) for name in ("anneal", "twin")]
    plain, twin = (
        reuse_of(node.stage, node.asked({"dataset": (dataset,), "initial": (first,)}, {}, "1")) for node in nodes
    )
    assert plain.key == twin.key
    without = reuse_of(nodes[0].stage, nodes[0].asked({"dataset": (dataset,)}, {}, "1"))
    else_ = reuse_of(nodes[0].stage, nodes[0].asked({"dataset": (dataset,), "initial": (other,)}, {}, "1"))
    assert len({plain.key, without.key, else_.key}) == 3
