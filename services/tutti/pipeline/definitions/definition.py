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
from tutti.contracts.pipeline.v1 import RunFigures
from tutti.model.footprint import Footprint
from tutti.model.spec import ModelSpec
from tutti.pipeline.definitions.blobchecks import Checked
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.sections import FileKeys
from tutti.pipeline.recipes.values import Inputs, Measure, Resident, Result, Source, WorkStatus
from tutti.pipeline.recipes.view import View
from tutti.records.manifest import Manifest

FILES = FileKeys.model_fields

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
    """A folder that a stage reads: the section's key for it, its path, and how its files are read.

    `limit` is the maximum number of files (0: all), `most_rejected` the share of records that may be rejected.
    `model`: it holds a model, and no texts.
    """

    key: str
    path: str
    limit: int = 0
    max_file_bytes: int = FILES["max_file_bytes"].default
    text_field: str = FILES["text_field"].default
    most_rejected: float = FILES["most_rejected"].default
    model: bool = False


@dataclass(frozen=True)
class StageContext:
    """The context of one stage of a run: the recipe as it reads it, inputs by role, its folder, its owner's version."""

    view: View
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


class StageDef:
    """One kind of stage. `work` is what the pipeline creates at its owner; `makes` the kind of its result, if another.

    `section` holds the keys of an instance; one that names a folder has it as `path`. `spec_keys` are keys of the
    section by the fields of the spec, where they differ.
    """

    name: ClassVar[str]
    work: ClassVar[type[Message]]
    makes: ClassVar[type[Message] | None] = None
    roles: ClassVar[tuple[Role, ...]] = ()
    section: ClassVar[type[Part]]
    spec_keys: ClassVar[Mapping[str, str]] = {}
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

    def parts(self, section: Any) -> Collection[str]:
        """The parts of its result that others can read alone, for an instance with this section."""
        return ()

    def filled(self, section: Any, keys: Keys) -> Any:
        """A section with what follows from its other keys. Raises InvalidField."""
        return section

    def embedded(self, section: Any, keys: Keys, text_of: Callable[[str, str], str]) -> Any:
        """A section with the text of each file that it names, by `text_of(key of the recipe, value)`.

        Raises InvalidField.
        """
        return section

    def spec_key(self, field: str) -> str:
        """Return the key of the section for a field of the spec; "" for one that follows from no key."""
        key = self.spec_keys.get(field, field)
        return key if key.partition(".")[0] in {*self.section.model_fields, *self.spec_keys.values()} else ""

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        """The conflicts in a recipe as an instance reads it; `filled` names the roles that have an input."""
        yield from ()

    def folder(self, view: View) -> Folder | None:
        """The folder that an instance reads, if it reads one."""
        return None

    def hosts(self, view: View) -> Mapping[str, str] | None:
        """The addresses of hosts that an instance is given, true on one machine alone; None: it visits none."""
        return None

    def located(self, view: View) -> bool:
        """True if an instance reads a folder or addresses of hosts, which are recorded with the run."""
        return self.folder(view) is not None or self.hosts(view) is not None

    @abstractmethod
    def request(self, asked: StageContext) -> Message:
        """The spec of the work."""

    @abstractmethod
    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        """The parameters that decide the content, beside the inputs; one that came later is absent at its default."""

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """The inputs, with what their owners know of them today. Raises InvalidField."""
        return asked.inputs

    def questions(self, view: View) -> Iterator[View]:
        """The recipes whose specs the owner judges before anything is made."""
        yield from ()

    def lookups(self, view: View, host: Host) -> Iterator[Callable[[], object]]:
        """The resources that must exist for a recipe: calls that raise InvalidField if one does not."""
        yield from ()

    def foreseen(self, view: View, host: Host) -> None:
        """Refuse what a recipe alone shows to be impossible. Raises InvalidField."""

    def fits(self, view: View, dataset: Result, host: Host) -> None:
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

    def amount(self, view: View, pages: int) -> float:
        """The amount of work in a unit of the stage, by default pages; 0 if unknown."""
        return float(pages)

    def disk(self, view: View) -> int | None:
        """Bytes that the stage writes, where they follow from the recipe."""
        return None

    def memory(self, view: View) -> int | None:
        """Bytes that the stage holds at least, where they follow from the recipe."""
        return None

    def rank_memory(self, view: View) -> int | None:
        """Bytes that each training process of the stage holds at least, where they follow from the recipe."""
        return None

    def trained_parameters(self, view: View) -> int | None:
        """The parameters of the model that the stage trains, where they follow from the recipe."""
        return None

    def step_tokens(self, view: View) -> int | None:
        """The tokens that a step of the training reads, where they follow from the recipe."""
        return None

    def footprint(self, view: View, begun: ModelSpec | None = None) -> Footprint | None:
        """The memory of the training processes of the stage on processors, where it is known before a run.

        `begun` is the model of the checkpoint of an earlier run that the stage goes back to.
        """
        return None

    def slots(self, view: View) -> int:
        """The slots of nodes that the training processes of the stage take at the same time."""
        return 0

    def unforeseeable(self, view: View) -> str:
        """The reason why there is no forecast; "" if there is one."""
        return ""

    def objection(self, view: View, work: Any) -> str:
        """The reason why a run does not continue with the result of the work; "" if it does."""
        return ""

    def summary(self, work: Any) -> str:
        """The line of the work in the summary of a run; "" for none."""
        return ""

    def run_figures(self, work: Any) -> RunFigures:
        """The figures of a run that the result of the work sets; those of a training are in what it `settled`."""
        return RunFigures()
