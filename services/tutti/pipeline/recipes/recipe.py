"""The recipe: everything that a run needs to know, with all defaults filled in.

Equal recipes have equal canonical JSON and so an equal digest. `reading` reads its text.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tutti.chassis.config import recipetext
from tutti.pipeline.recipes import sugar
from tutti.pipeline.recipes.instance import Instance
from tutti.pipeline.recipes.sections import CommonKeys, TokenizationSection
from tutti.records.canonical import canonical_json, content_digest


class Recipe(CommonKeys):
    """`top` are the stages of top-level keys, `stages` those that are named, both by name."""

    top: dict[str, Instance]
    stages: dict[str, Instance]

    @classmethod
    def of(cls, common: CommonKeys, top: Mapping[str, Instance], stages: Mapping[str, Instance]) -> "Recipe":
        values = {name: getattr(common, name) for name in CommonKeys.model_fields}
        return cls.model_construct(**values, top=dict(top), stages=dict(stages))

    @property
    def asked(self) -> dict[str, Instance]:
        """The stages that top-level keys ask for."""
        return {name: each for name, each in self.top.items() if each.asked}

    @property
    def tokens(self) -> TokenizationSection:
        """The tokens of the recipe's own dataset; stages that go back to no dataset of this recipe read them, too."""
        section = self.top["tokenization"].section
        assert isinstance(section, TokenizationSection)
        return section

    def each(self, change: Callable[[Instance], Instance]) -> "Recipe":
        """The recipe with every stage changed."""
        both = {"top": self.top, "stages": self.stages}
        changed = {key: {name: change(each) for name, each in several.items()} for key, several in both.items()}
        return self.model_copy(update=changed)

    def changed(self, key: str, change: Callable[[str, Any], object]) -> "Recipe":
        """The recipe with `change(key of the recipe, value)` as the value of a key of each stage where it is set."""

        def with_key(stage: Instance) -> Instance:
            value = getattr(stage.section, key, None)
            return stage.changed({key: change(stage.keys.of(key), value)}) if value else stage

        return self.each(with_key)

    def canonical(self) -> str:
        """Canonical JSON (RFC 8785) with every default."""
        return canonical_json(self._recorded()).decode()

    def digest(self) -> str:
        return content_digest(self._recorded(), kind="recipe")

    def _recorded(self) -> dict[str, Any]:
        stages = {name: each.recorded() for name, each in self.stages.items()}
        return {**sugar.recorded(self, self.top), **({"stages": stages} if stages else {})}

    def over(self, digests: Mapping[str, str]) -> "Recipe":
        """This recipe as it is recorded: without paths and addresses, which are of one machine alone.

        A folder is named by the digest of its content, by place; see `Instance.place`.
        """
        top = {name: each.placed(digests.get(each.place, "")) for name, each in self.top.items()}
        stages = {
            name: each.placed(digests[each.place]) if each.place in digests else each
            for name, each in self.stages.items()
        }
        return self.model_copy(update={"top": top, "stages": stages})


def keys() -> dict[str, Any]:
    """Every key of a recipe, dotted, with its type."""
    return recipetext.keys(sugar.Written)
