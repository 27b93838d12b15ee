"""Classifiers that the recipe of a run carries: named by the files of their recipes, trained before the run.

Promises: the run records what they are, as NAME@DIGEST, so that it is the same run wherever the files lie; nothing is
trained for a recipe in which something else is wrong; of one that carries none only its text is read here.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tutti.chassis.config import recipetext
from tutti.chassis.errors import InvalidField
from tutti.cli import training
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.output import say
from tutti.cli.platform import Platform
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest

KEY = "quality.classifiers"
FILES = (".yaml", ".yml", ".json")


def files_in(text: str, overrides: Sequence[str]) -> list[str]:
    """Names of files in the recipe of a run; empty if it has none."""

    def change(tree: recipetext.Tree, override: str) -> None:
        recipetext.override(tree, override, {KEY: list[str]})

    chosen = [each for each in overrides if each.startswith(f"{KEY}=")]
    tree, problems = recipetext.tree_of(text, chosen, change)
    quality = (tree or {}).get("quality")
    named = quality.get("classifiers") if isinstance(quality, dict) and not problems else None
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
        return []
    return named if any(each.endswith(FILES) for each in named) else []


def resolve(platform: Platform, request: CheckRecipeRequest | CreateRunRequest, *, anew: bool) -> None:
    """Let the recipe name what its files make: what is there, or, if `anew`, what is trained now. Raises Failure."""
    named = files_in(request.recipe, request.overrides)
    if not named:
        return
    if anew:
        _otherwise_sound(platform, request)
    get = _trained if anew else _trained_before
    references = [get(platform, Path(request.directory, each)) if each.endswith(FILES) else each for each in named]
    request.overrides.append(f"{KEY}={json.dumps(references)}")


def _otherwise_sound(platform: Platform, request: CheckRecipeRequest | CreateRunRequest) -> None:
    """Raises Failure where more is wrong with a recipe than that there are no rules of these classifiers yet."""
    without = CheckRecipeRequest(recipe=request.recipe, directory=request.directory, all_problems=True)
    without.files.update(request.files)
    without.overrides.extend([*request.overrides, f"{KEY}="])
    for each in platform.client.pipeline.CheckRecipe(without).problems:
        if each.key != "quality.thresholds":
            raise Failure(f"{each.key}: expected {each.expected}, got {each.seen}", MISUSE)


def _trained(platform: Platform, path: Path) -> str:
    with _of(path):
        wanted = training.of_file(path)
        found, before = training.trained(platform, wanted)
    reference = f"{wanted.name}@{found.model_digest}"
    if not before:
        say(f"{reference} was trained, by {path}")
    return reference


def _trained_before(platform: Platform, path: Path) -> str:
    with _of(path):
        wanted = training.of_file(path)
        found = training.trained_before(platform.client, wanted)
    if found is None:
        expected = f"classifiers that are trained: `tutti classifiers train {path}` does that, as `tutti run` would"
        raise Failure(InvalidField(KEY, seen=str(path), expected=expected).message, MISUSE)
    return f"{wanted.name}@{found.model_digest}"


@contextmanager
def _of(path: Path) -> Iterator[None]:
    """Add the name of the file to errors raised inside."""
    try:
        yield
    except InvalidField as problem:
        raise Failure(f"{path}: {problem.message}", MISUSE) from problem
    except Failure as problem:
        told = str(problem)
        raise Failure(told if told.startswith(str(path)) else f"{path}: {told}", problem.code) from problem
