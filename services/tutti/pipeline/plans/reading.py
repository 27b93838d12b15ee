"""A recipe's text: read, changed by overrides, checked whole.

Promises: what is wrong is named by its key, with what was seen and what was expected, all of it that can be seen at
once; what is not wrong has every default filled in.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from tutti.chassis.config import recipetext
from tutti.chassis.errors import InvalidField
from tutti.corpus.tokens.sampler import MAX_WEIGHTS
from tutti.pipeline.plans import graph, instances
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes import imports, sugar
from tutti.pipeline.recipes.instance import Instance, moved
from tutti.pipeline.recipes.recipe import Recipe, keys
from tutti.pipeline.recipes.sugar import Written

STAND_INS = {"input.path": "", "train.steps": 1}
"""For keys that every recipe has."""
DEPTH = 8
"""Keys lie less deep."""


def read(text: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in YAML or JSON text, with `key=value` overrides. Raises InvalidField, the first of what is wrong."""
    return _sound(*examine(text, overrides))


def parse(tree: Mapping[str, Any]) -> Recipe:
    """The recipe in a tree of plain values. Raises InvalidField, the first of what is wrong."""
    return _sound(*_examine(tree))


def examine(text: str, overrides: Sequence[str] = ()) -> tuple[Recipe | None, list[InvalidField]]:
    """The same recipe, or everything that is wrong with it."""
    tree, problems = recipetext.tree_of(text, overrides, _override)
    if tree is None:
        return None, problems
    if "keeps" in tree and "train" not in tree:
        expected = "a recipe of a run; `tutti classifiers train` takes this one"
        return None, [InvalidField("recipe", seen="one of a classifier", expected=expected)]
    recipe, found = _examine(tree)
    problems += found
    return (None if problems else recipe), problems


def remains(text: str, overrides: Sequence[str] = ()) -> Recipe | None:
    """The recipe without the keys that are wrong in themselves, so that the others can be judged too; None for no text
    that can be read. It is not one to run.
    """
    tree, _ = recipetext.tree_of(text, overrides, _override)
    if tree is None:
        return None
    tree.pop("stages", None)
    for _ in range(DEPTH):
        try:
            written = Written.model_validate(tree)
            return Recipe.of(written, instances.with_defaults(sugar.instances(written)), {})
        except ValidationError as error:
            for each in error.errors(include_url=False):
                _without(tree, each["loc"])
    return None


def _without(tree: dict[str, Any], place: Sequence[int | str]) -> None:
    """Take out what is wrong there, or put in what stands for what is missing."""
    for at, key in enumerate(place):
        inner = tree.get(key) if isinstance(key, str) else None
        if key in tree and not (isinstance(inner, dict) and at + 1 < len(place)):
            del tree[key]
            return
        if not isinstance(inner, dict):
            tree[str(key)] = STAND_INS.get(".".join(map(str, place)), {})
            return
        tree = inner


def _sound(recipe: Recipe | None, problems: Sequence[InvalidField]) -> Recipe:
    if problems:
        raise problems[0]
    assert recipe is not None
    return recipe


def _examine(tree: Mapping[str, Any]) -> tuple[Recipe | None, list[InvalidField]]:
    written, refused = recipetext.checked(Written, {key: value for key, value in tree.items() if key != "stages"})
    if written is None:
        return None, refused
    top = instances.with_defaults(sugar.instances(written))
    named, problems = instances.read(tree, {name: each for name, each in top.items() if each.asked})
    top = imports.with_tokenizers(top, named)
    problems = [*sugar.problems(written, named=bool(tree.get("stages"))), *_of_mixture(written, top), *problems]
    for name, each in top.items():
        try:
            top[name] = replace(each, section=definitions()[each.kind].filled(each.section, each.keys))
        except InvalidField as problem:
            problems.insert(0, problem)
    recipe = Recipe.of(written, top, named)
    problems += [each for node in graph.nodes(recipe) for each in node.stage.problems(node.view, node.inputs)]
    return (None, problems) if problems else (recipe, [])


def _of_mixture(written: Written, top: Mapping[str, Instance]) -> Iterator[InvalidField]:
    mixture = written.mixture
    if mixture is None:
        return
    if not (written.tokenizer.of or imports.TOKENIZER in top[imports.TOKENIZATION].inputs):
        yield InvalidField(
            "tokenizer.of",
            seen="nothing",
            expected=f"the tokenizer of what is mixed, so that all have one vocabulary: {min(mixture.datasets)}",
        )
    if mixture.by == "weight":
        named = {"mixture.own": mixture.own} | {f"mixture.datasets.{name}": of for name, of in mixture.datasets.items()}
        for key, weight in named.items():
            if not weight.is_integer():
                yield InvalidField(key, seen=weight, expected="a whole number, as mixture.by is weight")
        if (added := sum(named.values())) > MAX_WEIGHTS:
            yield InvalidField("mixture", seen=added, expected=f"weights that add up to at most {MAX_WEIGHTS}")


def _override(tree: dict[str, Any], text: str) -> None:
    if text.startswith("stages.") and text.partition("=")[0].count(".") > 1:
        _override_stage(tree, text)
        return
    key, _, value = text.partition("=")
    if key.startswith("stages.") and value.strip() in recipetext.NULL:
        _leave_out(tree, key)
        return
    recipetext.override(tree, text, keys())
    if text.startswith("input.path=") and text != "input.path=":
        tree["input"].pop("crawl", None)  # a folder instead of what the recipe would visit


def _leave_out(tree: dict[str, Any], key: str) -> None:
    """Leave out a stage: `stages.NAME=null`. Raises InvalidField if the recipe has none of this name."""
    stages, name = tree.get("stages"), key.removeprefix("stages.")
    if not isinstance(stages, dict) or name not in stages:
        names = ", ".join(map(str, stages)) if isinstance(stages, dict) and stages else "it has none"
        raise InvalidField(key, seen=name, expected=f"a stage of the recipe ({names})")
    del stages[name]


def _override_stage(tree: dict[str, Any], text: str) -> None:
    """Set a key of a stage: `stages.NAME.KEY=VALUE`. Raises InvalidField."""
    _, name, rest = text.split(".", 2)
    stages = tree.setdefault("stages", {})
    body = stages.setdefault(name, {}) if isinstance(stages, dict) else None
    if not isinstance(body, dict):
        raise InvalidField(f"stages.{name}", seen=body, expected="a mapping of keys")
    try:
        recipetext.override(body, rest, instances.keys(stages, name))
    except InvalidField as problem:
        raise moved(problem, f"stages.{name}.{problem.field}") from problem
