"""Files of text that a recipe names, such as a guideline: their text becomes part of the recipe that is recorded.

Promises: a run is the same wherever its files were; only small text files below the allowed folders are read, and what
cannot be read is named by the recipe's key.
"""

import os.path
from dataclasses import replace
from functools import partial

from tutti.chassis.config.roots import Roots, open_regular
from tutti.chassis.errors import InvalidField
from tutti.pipeline.crowdpart import CrowdPart, check_crowd
from tutti.pipeline.recipe import Recipe
from tutti.pipeline.registry import definitions

SUFFIXES = (".md", ".txt", ".yaml", ".yml", ".jsonl")
MOST_BYTES = 16 << 10


def embedded(recipe: Recipe, directory: str, roots: Roots) -> Recipe:
    """The recipe with the text of every file that it and its stages name. Raises InvalidField."""
    recipe, stages = _with_crowd(recipe, directory, roots), {}
    for name, instance in recipe.stages.items():
        text_of = partial(_text, f"stages.{name}.", directory, roots)
        section = definitions()[instance.kind].embedded(instance.section, text_of)
        stages[name] = instance if section is instance.section else replace(instance, section=section)
    return recipe.model_copy(update={"stages": stages}) if stages else recipe


def _with_crowd(recipe: Recipe, directory: str, roots: Roots) -> Recipe:
    """The recipe with the text of its crowd, there and in the stages that take it. Raises InvalidField."""
    if not recipe.crowd:
        return recipe
    text = _text("", directory, roots, "crowd", recipe.crowd)
    check_crowd("crowd", text)

    def taken(stage: str, crowd: CrowdPart) -> CrowdPart:
        return crowd.model_copy(update={"simulated": text}) if crowd.simulated == recipe.crowd else crowd

    return recipe.with_named("crowd", taken).model_copy(update={"crowd": text})


def _text(above: str, directory: str, roots: Roots, key: str, value: str) -> str:
    """The text of the file that a value names; a value that names none is text already. Raises InvalidField.

    `above` is the prefix of the key in the recipe.
    """
    if "\n" in value or not value.endswith(SUFFIXES):
        return value
    field = f"{above}{key}"
    if not os.path.isabs(value) and not os.path.isabs(directory):
        raise InvalidField(
            "directory", seen=directory or "nothing", expected=f"an absolute path that {field} ({value!r}) starts from"
        )
    try:
        with open_regular(roots.resolved(field, os.path.join(directory, value), "file")) as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidField(field, seen=f"{value}: {said}", expected="a file of text, or the text itself") from error
    if len(data) > MOST_BYTES:
        raise InvalidField(field, seen=f"{value}: more than {MOST_BYTES} bytes", expected=f"at most {MOST_BYTES} bytes")
    return text
