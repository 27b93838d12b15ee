"""The graph of a recipe: its stages by name, what each reads, and their order.

Pure. Promises: equal recipes have equal graphs; a stage comes after those that it reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tutti.chassis.errors import InvalidField
from tutti.contracts.tokenization.v1 import Dataset
from tutti.pipeline.definitions.definition import Folder, StageContext, StageDef
from tutti.pipeline.plans import instances
from tutti.pipeline.plans.registry import definitions
from tutti.pipeline.recipes.recipe import Recipe, Shown, parted
from tutti.pipeline.recipes.values import Inputs, Result, Reuse, Source, Sources
from tutti.records.canonical import content_digest

ORDER = ("crawl", "ingest", "filter", "evaluation", "dedup", "tokenization", "train", "index", "sample")
"""The stages that top-level keys ask for, in the order in which they are done."""


@dataclass(frozen=True)
class Node:
    """A stage of a recipe: an instance of a kind. `recipe` is the recipe as it reads it.

    `inputs` are the names of stages, by role. `place` is where its folder is recorded. `keys` are those of the recipe
    by the keys that the stage knows, where they differ.
    """

    name: str
    stage: StageDef
    recipe: Recipe
    inputs: Mapping[str, tuple[str, ...]]
    place: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Folder | None:
        """The folder that it reads; None where it reads what others made alone."""
        folder = self.stage.folder(self.recipe)
        return replace(folder, key=self.key(folder.key)) if folder else None

    @property
    def hosts(self) -> Mapping[str, str] | None:
        """The addresses of hosts that it is given; None where it visits none."""
        return self.stage.hosts(self.recipe)

    def key(self, known: str) -> str:
        """The key of the whole recipe for one that the stage knows."""
        for key, other in self.keys.items():
            if known == key or known.startswith(f"{key}."):
                return f"{other}{known.removeprefix(key)}"
        return known

    def renamed(self, problem: InvalidField) -> InvalidField:
        """The same problem, by the key of the whole recipe."""
        seen, expected = (problem.metadata.get(name, "") for name in ("seen", "expected"))
        return InvalidField(self.key(problem.field), seen=Shown(seen), expected=expected)

    @property
    def reads(self) -> tuple[str, ...]:
        """The stages and resources that it is given."""
        return tuple(parted(ref)[0] for refs in self.inputs.values() for ref in refs)

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
        return sources.get(self.place) if self.stage.located(self.recipe) else None

    def asked(self, inputs: Inputs, sources: Sources, logic_version: str = "") -> StageContext:
        return StageContext(self.recipe, inputs, self.source(sources), logic_version)

    def resource(self, run: str) -> str:
        """The name of its work at the owner: H(run, name)."""
        digest = content_digest({"run": run, "stage": self.name}, kind="stage").removeprefix("blake3:")
        return f"{self.stage.kind.plural}/{digest[:20]}"


def reuse_of(stage: StageDef, asked: StageContext) -> Reuse:
    """The key that identifies the result of a stage: kind, version, parameters, digests of the inputs and of the
    folder.

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
    """The stages of a recipe in the order in which they are done: those of top-level keys, then those by name."""
    found = {node.name: node for node in sorted(_flat(recipe), key=lambda node: ORDER.index(node.name))}
    for name in instances.order(recipe.stages):
        found[name] = _named(recipe, name, found)
    return tuple(found.values())


def flat_kinds(recipe: Recipe) -> dict[str, StageDef]:
    """The kinds of the stages that top-level keys ask for, by name."""
    return {name: stage for stage in definitions().values() for name in stage.flat(recipe)}


def _flat(recipe: Recipe) -> Iterator[Node]:
    known = flat_kinds(recipe)
    for name, stage in known.items():
        flat = stage.flat(recipe)[name]
        roles = () if flat.alone else stage.roles
        inputs = {role.name: (role.default,) for role in roles if role.default in known}
        yield Node(name, stage, flat.recipe, inputs, flat.place, flat.keys)


def _named(recipe: Recipe, name: str, before: Mapping[str, Node]) -> Node:
    """A named stage reads the recipe as the first stage that it reads does, but for its own keys."""
    instance = recipe.stages[name]
    stage = definitions()[instance.kind]
    base = next((before[ref].recipe for ref in instance.references if ref in before), recipe)
    view = stage.apply(base, instance.section)
    keys = dict.fromkeys(stage.flat_keys or (stage.name,), f"stages.{name}")
    return Node(name, stage, view, instance.inputs, name, keys)


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
