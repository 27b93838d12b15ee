"""A recipe as one of its stages reads it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.pipeline.recipes.instance import Instance
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.sections import TokenizationSection

P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class View:
    """The keys of the whole recipe and those of one stage. `first` is the view of the first stage that it reads."""

    recipe: Recipe
    instance: Instance
    first: "View | None" = None

    def section(self, of: type[P]) -> P:
        """Return the keys of the stage. Raises TypeError if they are of another type."""
        if not isinstance(self.instance.section, of):
            raise TypeError(f"the keys are {self.instance.section!r}, expected {of.__name__}")
        return self.instance.section

    def back(self) -> Iterator["View"]:
        """Return this view, that of the first stage which it reads, and so on."""
        found: View | None = self
        while found is not None:
            yield found
            found = found.first

    def nearest(self, of: type[P]) -> P | None:
        """Return the keys of the nearest stage with such keys that this one goes back to; None if there is none."""
        sections = (each.instance.section for each in self.back())
        return next((each for each in sections if isinstance(each, of)), None)

    @property
    def tokens(self) -> TokenizationSection:
        """The tokens of the dataset that the stage goes back to."""
        return self.nearest(TokenizationSection) or self.recipe.tokens

    def key(self, key: str) -> str:
        """Return the key of the recipe for a key of the section."""
        return self.instance.keys.of(key)

    def refused(self, key: str, *, seen: object, expected: str) -> InvalidField:
        """Return the error about a key of the section, named as in the recipe."""
        return self.instance.keys.refused(key, seen=seen, expected=expected)

    def changed(self, values: Mapping[str, object]) -> "View":
        """The same with other values of some keys of the stage."""
        return replace(self, instance=self.instance.changed(values))
