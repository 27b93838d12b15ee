"""A recipe's text: read, changed by overrides, checked whole.

Promises: what is wrong is named by its key, with what was seen and what was expected, all of it that can be seen at
once; what is not wrong has every default filled in.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tutti.chassis import recipetext
from tutti.chassis.errors import InvalidField
from tutti.corpus.sampler import MAX_WEIGHTS
from tutti.model.spec import SpecError
from tutti.pipeline.recipe import Recipe, keys

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
    written, refused = recipetext.checked(Recipe, tree)
    if written is None:
        return None, refused
    problems = [*_of_input(written), *_of_dedup(written), *_of_mixture(written), *_of_training(written)]
    try:
        recipe = _filled(written)
        if not problems:
            recipe.training("blake3:" + "0" * 64)
    except InvalidField as problem:
        problems.insert(0, problem)
    except SpecError as error:
        problems.append(InvalidField("train", seen=str(error), expected="a training that can work"))
    return (None, problems) if problems else (recipe, [])


def _of_input(recipe: Recipe) -> Iterator[InvalidField]:
    """What does not fit together where texts come from."""
    crawl, clean = recipe.input.crawl, recipe.dedup.decontaminate
    if bool(recipe.input.path) == (crawl is not None):
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
    for key, path in (("input.path", recipe.input.path), ("dedup.decontaminate.path", clean.path if clean else "")):
        if "\0" in path:
            yield InvalidField(key, seen=path, expected="a path without a NUL character")


def _of_dedup(recipe: Recipe) -> Iterator[InvalidField]:
    dedup, lines = recipe.dedup, recipe.dedup.lines
    if wrong := next((name for name in dedup.against if not name.startswith("datasets/")), ""):
        yield InvalidField("dedup.against", seen=wrong, expected="names of datasets, such as datasets/…")
    if lines is not None and lines.keep > lines.most:
        yield InvalidField("dedup.lines.keep", seen=lines.keep, expected=f"at most dedup.lines.most ({lines.most})")


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


def _of_training(recipe: Recipe) -> Iterator[InvalidField]:
    train = recipe.train
    if train.ranks > train.microbatches:
        yield InvalidField(
            "train.ranks",
            seen=train.ranks,
            expected=f"at most train.microbatches ({train.microbatches}): a rank computes at least one of them",
        )
    if train.warmup is not None and train.warmup > train.steps:
        yield InvalidField("train.warmup", seen=train.warmup, expected=f"at most train.steps ({train.steps})")
    if train.min_learning_rate > train.learning_rate:
        yield InvalidField(
            "train.min_learning_rate",
            seen=train.min_learning_rate,
            expected=f"at most train.learning_rate ({train.learning_rate:g})",
        )


def _filled(recipe: Recipe) -> Recipe:
    train = recipe.train
    rows = train.rows or 2
    if train.batch is not None:
        rows = train.rows or train.batch // train.microbatches
        if train.batch % train.microbatches or train.batch != rows * train.microbatches:
            named = f" x train.rows ({train.rows})" if train.rows else ""
            least = train.microbatches * max(1, rows)
            raise InvalidField(
                "train.batch",
                seen=train.batch,
                expected=f"train.microbatches ({train.microbatches}){named} times a whole number, such as {least}; "
                f"or leave it out and give train.rows",
            )
    values = {
        "rows": rows,
        "batch": None,
        "warmup": train.steps // 20 if train.warmup is None else train.warmup,
        "checkpoint_every": train.checkpoint_every or max(1, train.steps // 10),
    }
    return recipe.model_copy(update={"train": train.model_copy(update=values)})


def _override(tree: dict[str, Any], text: str) -> None:
    recipetext.override(tree, text, keys())
    if text.startswith("input.path=") and text != "input.path=":
        tree["input"].pop("crawl", None)  # a folder instead of what the recipe would visit
