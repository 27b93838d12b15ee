"""Both spellings of a recipe: the same stages, results and keys of reuse, and errors that name the key as written."""

import json
from itertools import pairwise
from typing import Any

import pytest

from tutti.pipeline.plans import graph
from tutti.pipeline.plans.graph import reuse_of
from tutti.pipeline.plans.reading import examine, parse
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import TokenizationSection
from tutti.pipeline.recipes.values import Result, Source

TOP: dict[str, Any] = {
    "size": "tiny",
    "template": "chat@1",
    "input": {"path": "pages", "limit": 3, "text_field": "body", "most_rejected": 0.9},
    "quality": {"rules": ["c4"], "mask": ["email"], "classifiers": ["harm@blake3:1"], "clean": "c4"},
    "dedup": {"near": 0.9, "lines": {"most": 3}},
    "tokenizer": {"vocabulary": 300, "reserve": False},
    "data": {"context": 32, "packing": "best_fit"},
    "train": {"steps": 20, "batch": 16, "learning_rate": 1e-3},
    "index": True,
    "sample": {"prompts": ["The"], "tokens": 3},
}
CHAIN = ("pages", "chosen", "kept", "tokens")
NAMED: dict[str, Any] = {
    "size": "tiny",
    "template": "chat@1",
    "stages": {
        "pages": {
            **{"kind": "ingest", "path": "pages", "limit": 3, "text_field": "body", "most_rejected": 0.9},
            **{"mask": ["email"], "classifiers": ["harm@blake3:1"]},
        },
        "chosen": {"kind": "filter", "from": "pages", "rules": ["c4"]},
        "kept": {"kind": "dedup", "from": "chosen", "near": 0.9, "lines": {"most": 3}, "clean": "c4"},
        "tokens": {
            **{"kind": "tokenization", "from": {"documents": "kept", "measures": "pages"}, "vocabulary": 300},
            **{"reserve": False, "context": 32, "packing": "best_fit"},
        },
        "model": {"kind": "train", "from": {"dataset": "tokens"}, "steps": 20, "batch": 16, "learning_rate": 1e-3},
        "found": {"kind": "index", "from": "tokens"},
        "texts": {"kind": "sample", "from": "model", "prompts": ["The"], "tokens": 3},
    },
}


def reuse(recipe: Recipe) -> dict[str, tuple[str, str]]:
    """For each kind of stage the key of reuse and the request, over equal results of the stages before."""
    found = {}
    for node in graph.nodes(recipe):
        results = {
            name: Result(f"{other.stage.kind.plural}/a", f"committer/manifests/{other.stage.name}.0.1.json", "blake3:a")
            for name, other in ((each.name, each) for each in graph.nodes(recipe))
        }
        source = {node.place: Source("/pages", "blake3:pages", "1")}
        asked = node.asked(node.given(results), source, "1")
        found[node.stage.name] = (reuse_of(node.stage, asked).key, str(node.stage.request(asked)))
    return found


def test_both_spellings_ask_for_the_same_work_and_reuse_the_same_results() -> None:
    top, named = reuse(parse(TOP)), reuse(parse(NAMED))
    assert list(top) == ["ingest", "filter", "dedup", "tokenization", "train", "index", "sample"]
    assert top == named


@pytest.mark.parametrize("tree", [TOP, NAMED], ids=["top-level keys", "named stages"])
def test_a_recipe_is_recorded_as_it_was_written(tree: dict[str, Any]) -> None:
    recipe = parse(tree)
    again, problems = examine(recipe.canonical())
    assert problems == []
    assert again is not None
    assert again.digest() == recipe.digest()
    assert reuse(again) == reuse(recipe)
    assert ('"stages"' in recipe.canonical()) == ("stages" in tree)


@pytest.mark.parametrize(
    ("stage", "values", "top", "named"),
    [
        ("train", {"ranks": 9}, "train.ranks", "stages.model.ranks"),
        ("train", {"steps": 0}, "train.steps", "stages.model.steps"),
        ("train", {"batch": 7}, "train.batch", "stages.model.batch"),
        ("sample", {"prompts": []}, "sample.prompts", "stages.texts.prompts"),
        ("tokenizer", {"vocabulary": 256}, "tokenizer.vocabulary", "stages.tokens.vocabulary"),
        ("dedup", {"lines": {"most": 1, "keep": 2}}, "dedup.lines.keep", "stages.kept.lines.keep"),
        ("dedup", {"against": ["runs/a"]}, "dedup.against", "stages.kept.against"),
        ("input", {"path": "a\0"}, "input.path", "stages.pages.path"),
    ],
)
def test_an_error_names_the_key_as_the_user_wrote_it(stage: str, values: Any, top: str, named: str) -> None:
    name = named.split(".")[1]
    changed = {**NAMED, "stages": {**NAMED["stages"], name: {**NAMED["stages"][name], **values}}}
    for key, tree in ((top, {**TOP, stage: {**TOP[stage], **values}}), (named, changed)):
        _, problems = examine(json.dumps(tree))
        (problem,) = problems
        assert problem.field == key


def test_a_named_stage_that_is_like_one_of_top_level_keys_takes_over_all_of_its_keys() -> None:
    stages = {"more": {"like": "tokenization", "vocabulary": 400}}
    more = parse({**TOP, "stages": stages}).stages["more"].section
    assert isinstance(more, TokenizationSection)
    assert (more.vocabulary, more.context, more.packing, more.reserve) == (400, 32, "best_fit", False)


def test_stages_go_back_to_the_tokens_of_their_own_dataset_and_without_one_to_those_of_top_level_keys() -> None:
    nodes = {node.name: node for node in graph.nodes(parse(NAMED))}
    assert all(nodes[name].view.first is nodes[before].view for before, name in pairwise(CHAIN))
    assert nodes["texts"].view.tokens.context == 32
    alone = parse({"data": {"context": 64}, "stages": {"sample": {"from": "checkpoints/a/0/5", "prompts": ["A"]}}})
    assert graph.node_of(alone, "sample").view.tokens.context == 64
