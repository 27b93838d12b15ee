"""The definition of a stage: everything that the pipeline knows about one kind of stage.

Promises: what one module of this package says is all there is to say; graph, driver, reuse, forecasts, evidence and
events are derived from it. Methods without a host are pure.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from google.protobuf.message import Message

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.kinds import Kind, kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.common.v1 import STATE_DONE
from tutti.pipeline.definitions.blobchecks import Checked
from tutti.pipeline.recipes.recipe import Recipe
from tutti.pipeline.recipes.values import Inputs, Measure, Resident, Result, Source, WorkStatus
from tutti.records.manifest import Manifest

MAKE_RUN = "`make run` on two cores of an EPYC (README)"
"""The source of measurements for a stage that has not run on this platform yet: 649 pages, 800 steps."""


@dataclass(frozen=True)
class Role:
    """An input of a stage: `of` is the kind of resource that fills it, or one of those in `also`.

    `default` names the stage that fills it where a recipe does not say. `many`: it may be filled by several. One that
    does not `decide` is not part of the reuse key. One that is not `given` is filled by what owners know, see `today`.
    """

    name: str
    of: type[Message]
    default: str = ""
    required: bool = True
    many: bool = False
    decides: bool = True
    given: bool = True
    also: tuple[type[Message], ...] = ()

    @property
    def kinds(self) -> tuple[type[Message], ...]:
        """The kinds of resources that fill it."""
        return (self.of, *self.also)

    @property
    def words(self) -> str:
        """The kinds as they are named in a sentence."""
        return " or ".join(map(with_article, self.kinds))


@dataclass(frozen=True)
class Folder:
    """A folder that a stage reads: the recipe's key for it, its path, and a limit of files (0: all)."""

    key: str
    path: str
    limit: int = 0


@dataclass(frozen=True)
class Flat:
    """A stage that top-level keys of a recipe ask for: the recipe as that stage reads it.

    `place` is where its folder is recorded. One that stands `alone` takes no input from the stages before it. `keys`
    are those of the recipe by the keys that the stage knows, where they differ.
    """

    recipe: Recipe
    place: str = ""
    alone: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StageContext:
    """The context of one stage of a run: the recipe as it reads it, inputs by role, its folder, its owner's version."""

    recipe: Recipe
    inputs: Inputs = field(default_factory=dict)
    source: Source | None = None
    logic_version: str = ""

    def one(self, role: str) -> Result:
        """The input of a role that is filled."""
        return self.inputs[role][0]

    def get(self, role: str) -> Result | None:
        return next(iter(self.inputs.get(role, ())), None)

    def all(self, role: str) -> tuple[Result, ...]:
        return self.inputs.get(role, ())


def with_article(of: type[Message]) -> str:
    """A kind of resource as it is named in a sentence: `a checkpoint`, `an index`."""
    name = of.DESCRIPTOR.name.lower()
    if name == kind_of(of).plural:
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def resource_of(of: type[Message], result: Result) -> str:
    """The name of the resource of this kind that a result is: of a training its checkpoint, and not its job."""
    kind = kind_of(of)
    if result.resource.startswith(f"{kind.plural}/"):
        return result.resource
    if of is Checkpoint:
        return checkpoint_of(result.manifest_key)
    return f"{kind.plural}/{result.content_digest.removeprefix('blake3:')}"


@dataclass(frozen=True)
class Question:
    """A recipe that the stage's owner judges before anything is made; `keys` of the recipe by the spec's fields."""

    recipe: Recipe
    keys: Mapping[str, str]


class StageDef:
    """One kind of stage. `work` is what the pipeline creates at its owner; `makes` the kind of its result, if another.

    `section` holds the keys of an instance under `stages`; None for a kind that top-level keys alone ask for. A section
    that names a folder has it as `path`.
    """

    name: ClassVar[str]
    work: ClassVar[type[Message]]
    makes: ClassVar[type[Message] | None] = None
    roles: ClassVar[tuple[Role, ...]] = ()
    section: ClassVar[type[Part] | None] = None
    flat_keys: ClassVar[tuple[str, ...]] = ()
    """The top-level keys under which a recipe has the keys of a section; the name of the kind unless it says so."""
    measured: ClassVar[Measure | None] = None
    resident: ClassVar[Resident | None] = None
    version: ClassVar[str] = ""
    """The logic version where the owner has none to tell."""
    movable: ClassVar[bool] = False
    """True if running work is told when its input moves."""
    surveyed: ClassVar[bool] = False
    """True if the service that computes the digest of its folder also knows the version of its logic."""
    brings_pages: ClassVar[bool] = False
    """True if its work reports the number of `pages`."""
    revisable: ClassVar[bool] = False
    """True if its owner may publish another result of ended work: then a run continues with the newest."""
    expensive: ClassVar[bool] = False
    """True if the stages that follow from the same dataset are checked before this one begins; see `fits`."""

    @property
    def kind(self) -> Kind:
        return kind_of(self.work)

    @property
    def result_kind(self) -> Kind:
        return kind_of(self.makes or self.work)

    def decisive(self, inputs: Inputs) -> Inputs:
        """Those of the inputs that decide the content, in the order of the roles."""
        return {role.name: inputs[role.name] for role in self.roles if role.decides and role.name in inputs}

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        """The instances that top-level keys ask for, by name."""
        return {}

    def apply(self, recipe: Recipe, section: Any) -> Recipe:
        """The recipe as an instance with this section reads it: `recipe.section` has its keys, unless others do."""
        return recipe.with_section(section)

    def parts(self, section: Any) -> Collection[str]:
        """The parts of its result that others can read alone, for an instance with this section."""
        return ()

    def filled(self, section: Any) -> Any:
        """A section with what follows from its other keys. Raises InvalidField."""
        return section

    def embedded(self, section: Any, text_of: Callable[[str, str], str]) -> Any:
        """A section with the text of each file that it names, by `text_of(key, value)`. Raises InvalidField."""
        return section

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        """The conflicts in a recipe as an instance reads it; `filled` names the roles that have an input."""
        yield from ()

    def folder(self, recipe: Recipe) -> Folder | None:
        """The folder that an instance reads, if it reads one."""
        return None

    def hosts(self, recipe: Recipe) -> Mapping[str, str] | None:
        """The addresses of hosts that an instance is given, true on one machine alone; None: it visits none."""
        return None

    def located(self, recipe: Recipe) -> bool:
        """True if an instance reads a folder or addresses of hosts, which are recorded with the run."""
        return self.folder(recipe) is not None or self.hosts(recipe) is not None

    @abstractmethod
    def request(self, asked: StageContext) -> Message:
        """The spec of the work."""

    @abstractmethod
    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        """The parameters that decide the content, beside the inputs; one that came later is absent at its default."""

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """The inputs, with what their owners know of them today. Raises InvalidField."""
        return asked.inputs

    def questions(self, recipe: Recipe) -> Iterator[Question]:
        """The questions about a recipe that the owner answers."""
        yield from ()

    def lookups(self, recipe: Recipe, host: Host) -> Iterator[Callable[[], object]]:
        """The resources that must exist for a recipe: calls that raise InvalidField if one does not."""
        yield from ()

    def foreseen(self, recipe: Recipe, host: Host) -> None:
        """Refuse what a recipe alone shows to be impossible. Raises InvalidField."""

    def fits(self, recipe: Recipe, dataset: Result, host: Host) -> None:
        """Refuse what the dataset that the stage goes back to shows to be impossible. Raises InvalidField."""

    def seen(self, work: Any) -> WorkStatus:
        """The work as the pipeline sees it; by default of a kind with a state, a reason and a result."""
        result = Result(work.name, work.result.manifest_key, work.result.content_digest)
        return WorkStatus(work.name, work.state, work.reason, result if work.state == STATE_DONE else None)

    def settled(self, work: Any, host: Host) -> WorkStatus:
        """The same where it takes other owners to know the result."""
        return self.seen(work)

    def on_the_way(self, result: Result, host: Host) -> Iterator[Result]:
        """The intermediate results of the work that its owner still keeps."""
        yield from ()

    def listed(self, data: bytes, *, thorough: bool) -> tuple[str, list[Checked]]:
        """The content digest of a result's manifest, and the blobs that it names; `thorough`: with their digests.

        Raises CorpusError, CheckpointError.
        """
        manifest = Manifest.decode(data, expected=self.result_kind.manifest)
        return manifest.content_digest, list(self.blobs(manifest))

    def blobs(self, manifest: Manifest) -> Iterator[Checked]:
        """The blobs that prove that a result is there; none where its manifest is all of it. Raises CorpusError."""
        yield from ()

    def pages(self, work: Any) -> int:
        """The number of pages of the work; 0 if unknown."""
        raise NotImplementedError(f"{self.name} brings no pages")

    def amount(self, recipe: Recipe, pages: int) -> float:
        """The amount of work in a unit of the stage, by default pages; 0 if unknown."""
        return float(pages)

    def disk(self, recipe: Recipe) -> int | None:
        """Bytes that the stage writes, where they follow from the recipe."""
        return None

    def memory(self, recipe: Recipe) -> int | None:
        """Bytes that the stage holds at least, where they follow from the recipe."""
        return None

    def unforeseeable(self, recipe: Recipe) -> str:
        """The reason why there is no forecast; "" if there is one."""
        return ""

    def objection(self, recipe: Recipe, work: Any) -> str:
        """The reason why a run does not continue with the result of the work; "" if it does."""
        return ""

    def summary(self, work: Any) -> str:
        """The line of the work in the summary of a run; "" for none."""
        return ""
