"""Recipes as text: the keys of a model in YAML or JSON, changed by `key=value` overrides, checked by the model.

Promises: what is wrong is named by its key, with what was seen and what was expected, all of it that can be seen at
once; a key that is misspelt with the one that is meant.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from tutti.chassis.config import synonyms, yamltext
from tutti.chassis.errors import InvalidField

Keys = Mapping[str, Any]
"""Every key of a kind of recipes, dotted, with its type."""
Tree = dict[str, Any]
Change = Callable[[Tree, str], None]

Real = Annotated[float, BeforeValidator(yamltext.number), Field(allow_inf_nan=False)]


class Part(BaseModel):
    """A recipe, or what lies below one of its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    later: ClassVar[frozenset[str]] = frozenset()
    """Keys that later versions added: recorded only where they differ from their default."""

    def unasked(self, of: "type[Part] | None" = None) -> set[str]:
        """Return the keys that later versions added and that have their default, by this class or a base of it."""
        by = of or type(self)
        return {
            name
            for name in by.later
            if getattr(self, name) == by.model_fields[name].get_default(call_default_factory=True)
        }


P = TypeVar("P", bound=Part)
NULL = ("null", "~", "")
"""Values of an override that leave out all keys below a key: `sample=null`."""
MOST_LISTED = 12
"""The most keys that an error lists."""
MOST_FILE_BYTES = 16 << 10
"""The most bytes of a file of text that a recipe names, such as a guideline."""


def keys(of: type[Part]) -> dict[str, Any]:
    """Every key of a recipe, dotted, with its type."""
    return dict(_keys(of, ""))


def _keys(part: type[BaseModel], above: str) -> Iterator[tuple[str, Any]]:
    for name, field in part.model_fields.items():
        inner = _part_of(field.annotation)
        if inner is not None:
            yield from _keys(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}", field.annotation


def _part_of(annotation: Any) -> type[Part] | None:
    """The part of a recipe that a field holds, or may hold; None for a plain value."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Part):
            return kind
    return None


def tree_of(text: str, overrides: Sequence[str], change: Change) -> tuple[Tree | None, list[InvalidField]]:
    """The values of a text with those overrides that there can be, and what is wrong with the others."""
    try:
        tree = _copied(yamltext.read(text))
    except InvalidField as problem:
        return None, [problem]
    return tree, changed(tree, overrides, change)


def changed(tree: Tree, overrides: Sequence[str], change: Change) -> list[InvalidField]:
    """Change the tree by each override that there can be; what is wrong with the others."""
    problems: list[InvalidField] = []
    for each in overrides:
        try:
            change(tree, each)
        except InvalidField as problem:
            problems.append(problem)
    return problems


def override(tree: Tree, text: str, known: Keys) -> None:
    """Set the key of `key=value`; without a value, or with null, leave out all keys below it. Raises InvalidField."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        example = next(iter(known))
        raise InvalidField("overrides", seen=text, expected=f"KEY=VALUE, such as {example}=…")
    *parents, last = key.split(".")
    # The keys of a mapping may have dots themselves.
    mapping = next((name for name, kind in known.items() if _holds(kind, dict) and key.startswith(f"{name}.")), "")
    if mapping:
        parents, last = mapping.split("."), key.removeprefix(f"{mapping}.")
    of_mapping = bool(mapping and last)
    none = value.strip() in NULL and any(name.startswith(f"{key}.") for name in known)
    if key not in known and not of_mapping and not none:
        raise _unknown(key, known)
    for parent in parents:
        inner = tree.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise InvalidField(parent, seen=inner, expected="a mapping of keys")
        tree = inner
    if none:
        tree[last] = None
        return
    tree[last] = _value(key, get_args(known[".".join(parents)])[1] if of_mapping else known[key], value)


def checked(
    of: type[P], tree: Mapping[str, Any], key_of: Callable[[str], str] = str
) -> tuple[P | None, list[InvalidField]]:
    """The recipe in a tree of plain values, or everything that is wrong with it, by `key_of` each of its keys."""
    try:
        return of.model_validate(tree), []
    except ValidationError as error:
        return None, _refusals(error, keys(of), key_of)


def _value(key: str, kind: Any, text: str) -> Any:
    """The value of a text of the command line for a key of this type. Raises InvalidField.

    Names are separated by commas; lists and mappings may be written as in YAML.
    """
    if kind is str:
        return text
    if (_holds(kind, list) and text.startswith("[")) or (_holds(kind, dict) and text.startswith("{")):
        return yamltext.read(f"value: {text}")["value"]
    if _holds(kind, list):
        return [name.strip() for name in text.split(",") if name.strip()]
    return yamltext.scalar(key, text)


def _holds(kind: Any, many: type) -> bool:
    """True if it is a list type or a mapping type."""
    origin: object = get_origin(kind)
    return origin is many


def _refusals(error: ValidationError, known: Keys, key_of: Callable[[str], str]) -> list[InvalidField]:
    """A problem for each error; unknown keys come first. That a key is missing is no other one where it is misspelt."""
    errors = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    meant = {_meant(_key(each), known) for each in errors if each["type"] == "extra_forbidden"}
    told = [each for each in errors if each["type"] != "missing" or _key(each) not in meant]
    return [_refusal(each, known, key_of(_key(each))) for each in told]


def _key(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])


def _refusal(error: ErrorDetails, known: Keys, key: str) -> InvalidField:
    if error["type"] == "extra_forbidden":
        return InvalidField(key, seen=_key(error), expected=_nearest(_key(error), known))
    if error["type"] == "missing":
        return InvalidField(key, seen="nothing", expected=f"a value; set {key} in the recipe, or give --set {key}=…")
    if error["type"] == "model_type":
        return InvalidField(key, seen=error["input"], expected="a mapping of keys")
    return InvalidField(key, seen=error["input"], expected=_expected(error["msg"]))


def _expected(message: str) -> str:
    """The message of a validator, worded to follow "expected"."""
    rest = message.removeprefix("Input should be ").replace("String should have", "text with")
    if rest.startswith(("greater", "less")):
        return f"a number {rest}"
    return rest[:1].lower() + rest[1:]


def _unknown(key: str, known: Keys) -> InvalidField:
    return InvalidField(key, seen=key, expected=_nearest(key, known))


def _nearest(key: str, known: Keys) -> str:
    """Return what was expected instead of an unknown key; all keys only if they are few."""
    if instead := synonyms.instead(key):
        return f"no key of this name, because ranks use {instead}"
    if synonym := synonyms.meant(key, known):
        return f"a key of recipes (here it is called {synonym})"
    meant = _meant(key, known)
    if not meant and len(known) <= MOST_LISTED:
        return f"one of {', '.join(sorted(known))}"
    return f"a key of recipes ({f'the nearest is {meant}' if meant else 'docs/recipes.md lists them'})"


def _meant(key: str, known: Keys) -> str:
    """The key that is most like it, or that it is another name of; "" where none is."""
    if synonym := synonyms.meant(key, known):
        return synonym
    every = list(known)
    found = difflib.get_close_matches(key, every, n=1, cutoff=0.5)
    if not found:
        last = key.rpartition(".")[2]
        found = difflib.get_close_matches(last, [each.rpartition(".")[2] for each in every], n=1, cutoff=0.6)
        found = [each for each in every if found and each.rpartition(".")[2] == found[0]][:1]
    return found[0] if found else ""


def _copied(tree: Mapping[str, Any]) -> Tree:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in tree.items()}
