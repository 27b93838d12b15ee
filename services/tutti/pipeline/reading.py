"""A recipe's text: read, changed by overrides, checked whole.

Promises: what is wrong is named by its key, with what was seen and what was expected, all of it that can be seen at
once; what is not wrong has every default filled in.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tutti.chassis.errors import InvalidField
from tutti.corpus.sampler import MAX_WEIGHTS
from tutti.model.spec import SpecError
from tutti.pipeline import yamltext
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
    tree, problems = _tree(text, overrides)
    if tree is None:
        return None, problems
    recipe, found = _examine(tree)
    problems += found
    return (None if problems else recipe), problems


def remains(text: str, overrides: Sequence[str] = ()) -> Recipe | None:
    """The recipe without the keys that are wrong in themselves, so that the others can be judged too; None for no text
    that can be read. It is not one to run.
    """
    tree, _ = _tree(text, overrides)
    if tree is None:
        return None
    for _ in range(DEPTH):
        try:
            return Recipe.model_validate(tree)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                _without(tree, each["loc"])
    return None


def _tree(text: str, overrides: Sequence[str]) -> tuple[dict[str, Any] | None, list[InvalidField]]:
    """The values of a text with those overrides that there can be, and what is wrong with the others."""
    problems: list[InvalidField] = []
    try:
        tree = _copied(yamltext.read(text))
    except InvalidField as problem:
        return None, [problem]
    for override in overrides:
        try:
            _override(tree, override)
        except InvalidField as problem:
            problems.append(problem)
    return tree, problems


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
    try:
        written = Recipe.model_validate(tree)
    except ValidationError as error:
        return None, _refusals(error)
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
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidField("overrides", seen=text, expected="KEY=VALUE, such as train.steps=100")
    known = keys()
    *parents, last = key.split(".")
    # The keys of a mapping may have dots themselves.
    mapping = next(
        (name for name, kind in known.items() if get_origin(kind) is dict and key.startswith(f"{name}.")), ""
    )
    if mapping:
        parents, last = mapping.split("."), key.removeprefix(f"{mapping}.")
    of_mapping = bool(mapping and last)
    if key not in known and not of_mapping:
        raise _unknown(key)
    if key == "input.path" and value and isinstance(tree.get("input"), dict):
        tree["input"].pop("crawl", None)  # a folder instead of what the recipe would visit
    for parent in parents:
        inner = tree.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise InvalidField(parent, seen=inner, expected="a mapping of keys")
        tree = inner
    tree[last] = _value(get_args(known[".".join(parents)])[1] if of_mapping else known[key], value)


def _value(kind: Any, text: str) -> Any:
    """What the text of the command line stands for, in a key of this type.

    Names are separated by commas; lists and mappings may be written as in YAML.
    """
    if kind is str:
        return text
    if (get_origin(kind) is list and text.startswith("[")) or (get_origin(kind) is dict and text.startswith("{")):
        return yamltext.read(f"value: {text}")["value"]
    if get_origin(kind) is list:
        return [name.strip() for name in text.split(",") if name.strip()]
    return yamltext.scalar(text)


def _refusals(error: ValidationError) -> list[InvalidField]:
    """A problem for each error; unknown keys come first. That a key is missing is no other one where it is misspelt."""
    errors = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    meant = {_meant(_key(each)) for each in errors if each["type"] == "extra_forbidden"}
    return [_refusal(each) for each in errors if each["type"] != "missing" or _key(each) not in meant]


def _key(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])


def _refusal(error: ErrorDetails) -> InvalidField:
    key = _key(error)
    if error["type"] == "extra_forbidden":
        return _unknown(key)
    if error["type"] == "missing":
        return InvalidField(key, seen="nothing", expected=f"a value; set {key} in the recipe, or give --set {key}=…")
    return InvalidField(key, seen=error["input"], expected=_expected(error["msg"]))


def _expected(message: str) -> str:
    """What a validator says, so that it reads on after "expected"."""
    rest = message.removeprefix("Input should be ").replace("String should have", "text with")
    if rest.startswith(("greater", "less")):
        return f"a number {rest}"
    return rest[:1].lower() + rest[1:]


def _unknown(key: str) -> InvalidField:
    return InvalidField(key, seen=key, expected=_nearest(key))


def _nearest(key: str) -> str:
    meant = _meant(key)
    return f"a key of recipes (the nearest is {meant})" if meant else f"one of {', '.join(sorted(keys()))}"


def _meant(key: str) -> str:
    """The key that is most like it; "" where none is."""
    every = list(keys())
    found = difflib.get_close_matches(key, every, n=1, cutoff=0.5)
    if not found:
        last = key.rpartition(".")[2]
        found = difflib.get_close_matches(last, [each.rpartition(".")[2] for each in every], n=1, cutoff=0.6)
        found = [each for each in every if found and each.rpartition(".")[2] == found[0]][:1]
    return found[0] if found else ""


def _copied(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in tree.items()}
