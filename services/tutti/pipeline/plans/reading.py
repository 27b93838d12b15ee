"""A recipe's text: read, changed by overrides, checked whole.

Promises: what is wrong is named by its key, with what was seen and what was expected, all of it that can be seen at
once; what is not wrong has every default filled in.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tutti.chassis.config import recipetext
from tutti.chassis.errors import InvalidField
from tutti.corpus.tokens.sampler import MAX_WEIGHTS
from tutti.model.spec import SpecError
from tutti.pipeline.plans import graph, instances
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.recipe import Recipe, keys

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
            return Recipe.model_validate(tree)
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
    written, refused = recipetext.checked(Recipe, {key: value for key, value in tree.items() if key != "stages"})
    if written is None:
        return None, refused
    named, problems = instances.read(tree, graph.flat_kinds(written))
    problems = [*_of_input(written, tree), *_of_dedup(written), *_of_mixture(written), *problems]
    try:
        recipe = _filled(written)
    except InvalidField as problem:
        problems.insert(0, problem)
        recipe = written
    recipe = recipe.model_copy(update={"stages": named})
    every = graph.nodes(recipe)
    problems += [node.renamed(problem) for node in every for problem in node.stage.problems(node.recipe, node.inputs)]
    if not problems:
        problems += filter(None, map(_of_model, every))
    return (None, problems) if problems else (recipe, [])


def _of_model(node: graph.Node) -> InvalidField | None:
    """The error that keeps the training of a stage from working; None if there is none, or no training."""
    try:
        if node.stage.expensive and node.recipe.train is not None:
            node.recipe.training("blake3:" + "0" * 64)
    except SpecError as error:
        return InvalidField(node.key("train"), seen=str(error), expected="a training that can work")
    return None


def _of_input(recipe: Recipe, tree: Mapping[str, Any]) -> Iterator[InvalidField]:
    """The conflicts between keys of the input; a recipe that has only named stages needs no input."""
    crawl = recipe.input.crawl
    alone = bool(tree.get("stages")) and not (recipe.train or recipe.index or recipe.sample)
    if recipe.train is None and not tree.get("stages"):
        expected = "a value; set train in the recipe, or give --set train=…"
        yield InvalidField("train", seen="nothing", expected=expected)
    if bool(recipe.input.path) == (crawl is not None) and not (alone and not recipe.input.path):
        yield InvalidField(
            "input.path" if crawl is None else "input.crawl",
            seen="both" if recipe.input.path else "nothing",
            expected="input.path (a folder of pages) or input.crawl (a part of the web), and one of them alone; "
            "set it in the recipe, or give --set input.path=…",
        )
    if crawl is not None and recipe.input.limit:
        yield InvalidField(
            "input.limit", seen=recipe.input.limit, expected="0: of a crawl input.crawl.pages is the limit"
        )


def _of_dedup(recipe: Recipe) -> Iterator[InvalidField]:
    dedup = recipe.dedup
    if wrong := next((name for name in dedup.against if not name.startswith("datasets/")), ""):
        yield InvalidField("dedup.against", seen=wrong, expected="names of datasets, such as datasets/…")


def _of_mixture(recipe: Recipe) -> Iterator[InvalidField]:
    mixture = recipe.mixture
    if mixture is None:
        return
    if not recipe.tokenizer.of:
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


def _filled(recipe: Recipe) -> Recipe:
    """With what follows from other keys. Raises InvalidField."""
    if recipe.train is None:
        return recipe
    return recipe.model_copy(update={"train": definitions()["train"].filled(recipe.train)})


def _override(tree: dict[str, Any], text: str) -> None:
    if text.startswith("stages.") and text.partition("=")[0].count(".") > 1:
        _override_stage(tree, text)
        return
    recipetext.override(tree, text, keys())
    if text.startswith("input.path=") and text != "input.path=":
        tree["input"].pop("crawl", None)  # a folder instead of what the recipe would visit


def _override_stage(tree: dict[str, Any], text: str) -> None:
    """Set a key of a stage: `stages.NAME.KEY=VALUE`. Raises InvalidField."""
    _, name, rest = text.split(".", 2)
    stages = tree.setdefault("stages", {})
    body = stages.setdefault(name, {}) if isinstance(stages, dict) else None
    if not isinstance(body, dict):
        raise InvalidField(f"stages.{name}", seen=body, expected="a mapping of keys")
    try:
        recipetext.override(body, rest, instances.keys(body, name))
    except InvalidField as problem:
        seen, expected = (problem.metadata.get(key, "") for key in ("seen", "expected"))
        raise InvalidField(f"stages.{name}.{problem.field}", seen=seen, expected=expected) from problem
