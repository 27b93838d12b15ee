"""An instance of a kind of stage in a recipe: its inputs, its keys, and where the user wrote these."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField, Problem

PARTED = ("conversations/",)
"""Prefixes of names of resources that can be split into parts; these names contain no dot."""


class _Shown(str):
    """A value that an error contains as text already."""

    def __repr__(self) -> str:
        return str(self)


def moved(problem: Problem, key: str) -> InvalidField:
    """Return the same error about another key."""
    seen, expected = (problem.metadata.get(name, problem.message) for name in ("seen", "expected"))
    return InvalidField(key, seen=_Shown(seen), expected=expected)


def parted(reference: str) -> tuple[str, str]:
    """The stage or resource that a reference names, and the part of its split, "" for all of it.

    `prompts.train` is the part train of the stage prompts, `conversations/ID.train` that of a resource.
    """
    if "/" in reference and not reference.startswith(PARTED):
        return reference, ""
    name, _, part = reference.partition(".")
    return name, part


@dataclass(frozen=True)
class Keys:
    """The keys of a recipe that hold those of a section: below `above`, except for those in `others`."""

    above: str
    others: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """Return the key of the recipe for a key of the section; "" stands for the section itself."""
        if key in self.others:
            return self.others[key]
        first, _, rest = key.partition(".")
        return ".".join(filter(None, (self.others.get(first) or f"{self.above}.{first}".rstrip("."), rest)))

    def refused(self, key: str, *, seen: object, expected: str) -> InvalidField:
        """Return the error about a key of the section."""
        return InvalidField(self.of(key), seen=seen, expected=expected)


@dataclass(frozen=True)
class Instance:
    """A stage of a recipe: its kind, what fills each role (stages and resources, with the part that is read), its keys.

    `place` is where its folder is recorded. One that is not `asked` for has keys that stages without a dataset or
    documents of this recipe go back to.
    """

    kind: str
    inputs: Mapping[str, tuple[str, ...]]
    section: Part
    keys: Keys
    place: str
    asked: bool = True

    @property
    def references(self) -> tuple[str, ...]:
        """The stages and resources that it reads."""
        return tuple(parted(ref)[0] for refs in self.inputs.values() for ref in refs)

    def recorded(self) -> dict[str, object]:
        """As in a recipe; a key without a value is absent, and a role with one reference has no list."""
        refs = {role: refs[0] if len(refs) == 1 else list(refs) for role, refs in self.inputs.items()}
        keys = self.section.model_dump(exclude_none=True, exclude=self.section.unasked())
        return {"kind": self.kind, "from": refs, **keys}

    def changed(self, values: Mapping[str, object]) -> "Instance":
        """The same with other values of some keys."""
        return replace(self, section=self.section.model_copy(update=values))

    def placed(self, digest: str) -> "Instance":
        """The same over a folder with this content, or over hosts that are found by their names."""
        fields = type(self.section).model_fields
        if "path" in fields:
            return self.changed({"path": digest})
        return self.changed({"connect": {}}) if "connect" in fields else self
