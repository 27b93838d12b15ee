"""The recipe of a classifier: from which labelled folders it learns, and which label is wanted.

Promises: a folder with options is the same recipe as a file that says the same; what is wrong is named by its key.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from tutti.chassis.config import recipetext
from tutti.chassis.config.recipetext import Part, Real
from tutti.chassis.errors import InvalidField
from tutti.contracts.ingest.v1 import ClassifierSpec
from tutti.corpus.quality.windows import MOST_WINDOW

TEXT_FIELD, MOST_FALSE = "text", 0.02
MOST_LISTED = 20


class InputPart(Part):
    path: str = Field(
        min_length=1,
        max_length=4096,
        description="folder with a subfolder of texts for each label, relative to the folder of the recipe",
    )
    text_field: str = Field(
        default=TEXT_FIELD, min_length=1, max_length=200, description="field with the text, in JSON lines and Parquet"
    )


class ClassifierRecipe(Part):
    name: str = Field(min_length=1, max_length=40, description="name of the classifier, and of its rules NAME.LABEL")
    input: InputPart
    keeps: str = Field(min_length=1, max_length=40, description="label of the texts to keep")
    most_false: Real = Field(
        default=MOST_FALSE, gt=0, lt=1, description="maximum share of the texts to keep that a threshold may reject"
    )
    window: int = Field(
        default=0,
        ge=0,
        le=MOST_WINDOW,
        description="judge texts by windows of whole sentences with at most this number of characters; `most_false` is "
        "then a share of answers of 1,000 characters. 0 judges each text as a whole",
    )


KEYS = recipetext.keys(ClassifierRecipe)


def read(text: str, overrides: Sequence[str] = ()) -> ClassifierRecipe:
    """The recipe in YAML or JSON text, with `key=value` overrides. Raises InvalidField, the first of what is wrong."""
    tree, problems = recipetext.tree_of(text, overrides, _override)
    if tree is not None and "train" in tree:
        raise InvalidField(
            "recipe", seen="one of a run", expected="a recipe of a classifier; `tutti run` takes this one"
        )
    return _sound(tree, problems)


def of_options(folder: Path, overrides: Sequence[str] = (), **values: str | float | None) -> ClassifierRecipe:
    """The recipe that a folder is with the values of options. Raises InvalidField."""
    given = {key: value for key, value in values.items() if value is not None}
    tree: recipetext.Tree = {"input": {"path": str(folder)}, **given}
    return _sound(tree, recipetext.changed(tree, overrides, _override))


def spec_of(recipe: ClassifierRecipe, directory: Path) -> ClassifierSpec:
    """The spec that the recipe asks for; its folder is relative to a directory. Raises InvalidField."""
    path, keeps, field = recipe.input.path, recipe.keeps, recipe.input.text_field
    if "\0" in path or not os.path.isdir(folder := (directory / path).resolve()):
        raise InvalidField("input.path", seen=path, expected="a folder whose folders are labels")
    labels = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    if keeps not in labels:
        more = ", …" if len(labels) > MOST_LISTED else ""
        listed = f"{', '.join(labels[:MOST_LISTED])}{more}" if labels else "it has none"
        raise InvalidField("keeps", seen=keeps, expected=f"a folder of {path} ({listed})")
    spec = ClassifierSpec(input_path=str(folder), keeps=keeps, most_false=recipe.most_false, window=recipe.window)
    if field != TEXT_FIELD:
        spec.text_field = field
    return spec


def asked_for(spec: ClassifierSpec) -> dict[str, object]:
    """By key of the recipe what decides, beside the texts, which classifier is learnt from a spec."""
    return {
        "keeps": spec.keeps,
        "most_false": spec.most_false if spec.HasField("most_false") else MOST_FALSE,
        "input.text_field": spec.text_field or TEXT_FIELD,
        "window": spec.window,
    }


def _override(tree: dict[str, Any], text: str) -> None:
    recipetext.override(tree, text, KEYS)


def _sound(tree: recipetext.Tree | None, problems: Sequence[InvalidField]) -> ClassifierRecipe:
    recipe, found = recipetext.checked(ClassifierRecipe, tree) if tree is not None else (None, [])
    for problem in (*problems, *found):
        raise problem
    assert recipe is not None
    return recipe
