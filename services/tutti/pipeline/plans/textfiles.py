"""Files of text that a recipe names, such as a guideline: their text becomes part of the recipe that is recorded.

Promises: a run is the same wherever its files were. A file is what the caller sent; what was not sent is read here,
only if it is small text at a path that the caller may name. What cannot be read is named by the recipe's key.
"""

import contextlib
import os.path
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tutti.backbone.ours import open_regular
from tutti.chassis.config.recipetext import MOST_FILE_BYTES
from tutti.chassis.config.roots import Roots
from tutti.chassis.errors import InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.crowdpart import CrowdPart, check_crowd
from tutti.pipeline.recipes.recipe import Recipe

SUFFIXES = (".md", ".txt", ".yaml", ".yml", ".jsonl")
SENT = "the command sends those below the folder of the recipe and those that --set names"
MOST_FILES = 64


@dataclass(frozen=True)
class Given:
    """The files of one request: `sent` has texts by the paths in the recipe; others start from `directory` and are in
    `roots`, as `principal` may name them.
    """

    sent: Mapping[str, str]
    directory: str
    roots: Roots
    principal: Principal

    def text(self, field: str, path: str) -> str:
        """The text of a file. Raises InvalidField."""
        if (text := self.sent.get(path)) is None:
            text = self._read(field, path)
        if len(text.encode()) > MOST_FILE_BYTES:
            raise InvalidField(
                field, seen=f"{path}: more than {MOST_FILE_BYTES} bytes", expected=f"at most {MOST_FILE_BYTES} bytes"
            )
        return text

    def _read(self, field: str, path: str) -> str:
        if not os.path.isabs(path) and not os.path.isabs(self.directory):
            raise InvalidField(
                "directory",
                seen=self.directory or "nothing",
                expected=f"an absolute path that {field} ({path!r}) starts from",
            )
        try:
            found = self.roots.resolved(field, os.path.join(self.directory, path), "file", self.principal)
        except InvalidField as problem:
            raise InvalidField(field, seen=path, expected=f"{problem.metadata['expected']}; {SENT}") from problem
        try:
            with open_regular(found) as file:
                return file.read(MOST_FILE_BYTES + 1).decode()
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise InvalidField(field, seen=f"{path}: {said}", expected="a file of text, or the text itself") from error


def embedded(recipe: Recipe, given: Given) -> Recipe:
    """The recipe with the text of every file that it and its stages name. Raises InvalidField."""
    if len(given.sent) > MOST_FILES:
        raise InvalidField("files", seen=f"{len(given.sent)} files", expected=f"at most {MOST_FILES}")
    recipe, stages = _with_crowd(recipe, given), {}
    for name, instance in recipe.stages.items():
        section = definitions()[instance.kind].embedded(instance.section, instance.keys, partial(_text, given))
        stages[name] = instance if section is instance.section else replace(instance, section=section)
    return recipe.model_copy(update={"stages": stages}) if stages else recipe


def named(recipe: Recipe) -> dict[str, str]:
    """The path of each file that a recipe names, by its key."""
    found: dict[str, str] = {}

    def note(key: str, value: str) -> str:
        if is_path(value):
            found[key] = value
        return value

    note("crowd", recipe.crowd)
    for instance in recipe.stages.values():
        with contextlib.suppress(InvalidField):  # a path is no crowd, which was noted before
            definitions()[instance.kind].embedded(instance.section, instance.keys, note)
    return found


def is_path(value: str) -> bool:
    """True if a value names a file; another one is text already."""
    return "\n" not in value and value.endswith(SUFFIXES)


def _with_crowd(recipe: Recipe, given: Given) -> Recipe:
    """The recipe with the text of its crowd, there and in the stages that take it. Raises InvalidField."""
    if not recipe.crowd:
        return recipe
    text = _text(given, "crowd", recipe.crowd)
    check_crowd("crowd", text)

    def taken(key: str, crowd: CrowdPart) -> CrowdPart:
        return crowd.model_copy(update={"simulated": text}) if crowd.simulated == recipe.crowd else crowd

    return recipe.changed("crowd", taken).model_copy(update={"crowd": text})


def _text(given: Given, key: str, value: str) -> str:
    """The text that the value of a key of the recipe names. Raises InvalidField."""
    return given.text(key, value) if is_path(value) else value
