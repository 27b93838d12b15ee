"""Values that stages pass on: results, folders as they were read, and what decides a stage's content.

Pure. Promises: equal values name equal content.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tutti.contracts.common.v1 import State
from tutti.contracts.ingest.v1 import InputSample
from tutti.contracts.pipeline.v1 import RunFigures
from tutti.pipeline.recipes.begun import Begun
from tutti.records.canonical import content_digest


@dataclass(frozen=True)
class Result:
    """The result of a stage: a manifest, named by its content.

    `resource` is the work that made it. `retracted`: the list of its documents that are retracted today, "" for none.
    `weight`: of a dataset in a mixture. `part` of its split that is read, "" for all of it.
    `derivation` says how it came about where judgements shaped it, see `derivation.py`.
    `begun` of a checkpoint, and `count` of the lines of conversations or preferences, where a stage asked for them.
    """

    resource: str
    manifest_key: str
    content_digest: str
    retracted: str = ""
    weight: int = 0
    part: str = ""
    begun: Begun | None = None
    count: int = 0
    derivation: str = ""


Inputs = Mapping[str, tuple[Result, ...]]
"""The inputs of a stage by role; a role that nothing fills is absent."""


@dataclass(frozen=True)
class Source:
    """A folder as it was when the recipe was accepted; of a crawl, the addresses of hosts (JSON) are the path.

    `files`, `nbytes` and `sample` are known only where the folder was just read, and do not identify it.
    """

    path: str
    input_digest: str
    logic_version: str
    files: int = field(default=0, compare=False)
    nbytes: int = field(default=0, compare=False)
    sample: InputSample | None = field(default=None, compare=False)


Sources = Mapping[str, Source]
"""The folders of a run by the place of the stage that reads each; see `graph.Node.place`."""


@dataclass(frozen=True)
class Reuse:
    """Everything that decides a stage's content: its key is the digest of this. `stage` is the kind."""

    stage: str
    logic_version: str
    parameters: Mapping[str, object]
    inputs: tuple[str, ...]

    @property
    def key(self) -> str:
        return content_digest(asdict(self), kind="reuse key")


@dataclass(frozen=True)
class WorkStatus:
    """A stage's work as its owner has it; `result`, its `summary` in words and its `figures`, when it is done.

    `objection` is why a run does not continue with the result; "" where it does.
    """

    resource: str
    state: State.ValueType
    reason: str
    result: Result | None
    summary: str = ""
    objection: str = ""
    figures: RunFigures = field(default_factory=RunFigures)


@dataclass(frozen=True)
class Measure:
    """A measurement of a stage: the time for an amount of work, in its own unit, and `nbytes` written, None if
    unknown.
    """

    where: str
    seconds: float
    amount: float
    nbytes: int | None = None


@dataclass(frozen=True)
class Resident:
    """Memory that a process of a stage held in a benchmark, and what each page adds, in bytes."""

    where: str
    nbytes: int
    page: int = 0
