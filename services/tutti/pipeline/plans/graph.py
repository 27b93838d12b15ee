"""The graph of a recipe: its stages by name, what each reads, and their order.

Pure. Promises: equal recipes have equal graphs; a stage comes after those that it reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tutti.contracts.tokenization.v1 import Dataset
from tutti.pipeline.definitions.definition import Folder, StageContext, StageDef
from tutti.pipeline.plans import instances
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.instance import Instance, parted
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Inputs, Result, Reuse, Source, Sources
from tutti.pipeline.recipes.view import View
from tutti.records.canonical import content_digest


@dataclass(frozen=True)
class Node:
    """A stage of a recipe: an instance of a kind. `view` is the recipe as it reads it."""

    name: str
    stage: StageDef
    view: View

    @property
    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """The names of stages and resources, by role."""
        return self.view.instance.inputs

    @property
    def place(self) -> str:
        """The place where its folder is recorded."""
        return self.view.instance.place

    @property
    def folder(self) -> Folder | None:
        """The folder that it reads; None where it reads what others made alone."""
        folder = self.stage.folder(self.view)
        return replace(folder, key=self.view.key(folder.key)) if folder else None

    @property
    def hosts(self) -> Mapping[str, str] | None:
        """The addresses of hosts that it is given; None where it visits none."""
        return self.stage.hosts(self.view)

    @property
    def reads(self) -> tuple[str, ...]:
        """The stages and resources that it is given."""
        return self.view.instance.references

    def given(self, results: Mapping[str, Result]) -> Inputs:
        """Its inputs, of the results so far."""
        named = {role: [parted(ref) for ref in refs] for role, refs in self.inputs.items()}
        found = {
            role: tuple(replace(results[name], part=part) for name, part in refs if name in results)
            for role, refs in named.items()
        }
        return {role: given for role, given in found.items() if given}

    def source(self, sources: Sources) -> Source | None:
        """Its folder, or where hosts of its crawl are; None where it reads what others made alone."""
        return sources.get(self.place) if self.stage.located(self.view) else None

    def asked(self, inputs: Inputs, sources: Sources, logic_version: str = "") -> StageContext:
        return StageContext(self.view, inputs, self.source(sources), logic_version)

    def resource(self, run: str) -> str:
        """The name of its work at the owner: H(run, name)."""
        digest = content_digest({"run": run, "stage": self.name}, kind="stage").removeprefix("blake3:")
        return f"{self.stage.kind.plural}/{digest[:20]}"


def reuse_of(stage: StageDef, asked: StageContext) -> Reuse:
    """The parts of the reuse key, which identifies the result of a stage: kind, version, parameters, digests of the
    inputs and of the folder.

    Roles that only `from` fills are named too, so that equal digests in other roles have another key, and so are parts.
    """
    decisive = stage.decisive(asked.inputs)
    inputs = [each.content_digest for several in decisive.values() for each in several]
    if asked.source is not None and asked.source.input_digest:
        inputs.append(asked.source.input_digest)
    named = [role.name for role in stage.roles if role.given and not role.default for _ in decisive.get(role.name, ())]
    parts = {role: [each.part for each in several] for role, several in decisive.items()}
    parts = {role: several for role, several in parts.items() if any(several)}
    parameters = {
        **stage.parameters(asked),
        **({"from": named} if named else {}),
        **({"parts": parts} if parts else {}),
    }
    return Reuse(stage.name, asked.logic_version, parameters, tuple(inputs))


def nodes(recipe: Recipe) -> tuple[Node, ...]:
    """The stages of a recipe in the order in which they are done: those of top-level keys, then those by name.

    One that another needs comes before it.
    """
    found: dict[str, Node] = {}
    stages = {**recipe.asked, **instances.ordered(recipe.stages)}
    for name in stages:
        _place(found, recipe, stages, name)
    return tuple(found.values())


def _place(found: dict[str, Node], recipe: Recipe, stages: Mapping[str, Instance], name: str) -> None:
    """Put a stage into `found`, after those that it needs."""
    if name in found:
        return
    instance = stages[name]
    for ref in instance.references:
        if ref in stages:
            _place(found, recipe, stages, ref)
    first = next((found[ref].view for ref in instance.references if ref in found), None)
    found[name] = Node(name, definitions()[instance.kind], View(recipe, instance, first))


def node_of(recipe: Recipe, name: str) -> Node:
    """Raises KeyError."""
    return {node.name: node for node in nodes(recipe)}[name]


def chain(every: Sequence[Node], node: Node) -> Iterator[Node]:
    """A stage, what it reads first of all, what that reads, and so on."""
    by_name = {each.name: each for each in every}
    found: Node | None = node
    while found is not None:
        yield found
        first, _ = parted(next(iter(found.inputs.values()), ("",))[0])
        found = by_name.get(first)


def dataset_of(every: Sequence[Node], node: Node) -> str:
    """The stage that makes the dataset that a stage goes back to; "" for one before any."""
    return next((each.name for each in chain(every, node) if each.stage.makes is Dataset), "")
