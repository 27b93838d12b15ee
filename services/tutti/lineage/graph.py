"""The graph of resources: what each kind of resource says about itself and its parents.

Promises: pure; the same resources give the same graph in whatever order they are folded; an edge may come before its
vertices.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from google.protobuf.message import Message

from tutti.chassis.rpc import kinds
from tutti.client.titles import title_of
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.tokenization.v1 import Tokenization

CHAIN = ("crawls", "ingests", "filters", "dedups", "tokenizations")
"""Kinds whose resources do not name what they read: each reads what the stage before it made."""
MADE, REUSED, READ, EQUAL = "made", "reused", "read", "equal"
OF_RUN = frozenset({MADE, REUSED})
"""Relations of a run to the result of a stage."""
WEAK = frozenset({REUSED, EQUAL})
"""Relations without descent: a run found a result made, or an input equal to the one that it was made from."""
UNLICENSED = "no licence named"
EVALUATION = "evaluation"  # the stage that reads the texts which dedup takes out of the corpus


@dataclass(frozen=True, order=True)
class Vertex:
    """A resource; `kind` is the singular of its name's first segment."""

    name: str
    kind: str
    digest: str = ""
    label: str = ""


@dataclass(frozen=True, order=True)
class Edge:
    """`child` came from `parent`."""

    parent: str
    child: str
    relation: str


@dataclass(frozen=True)
class Testimony:
    """The contents of one resource or manifest, as nodes and edges."""

    vertices: tuple[Vertex, ...] = ()
    edges: tuple[Edge, ...] = ()


@dataclass
class Walk:
    """Vertices by name in walking order, and the edges that were walked."""

    names: list[str] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    truncated: bool = False


def kind_of(name: str) -> str:
    """The kind that a name says: the singular of its first segment."""
    plural = name.split("/")[0]
    return plural.removesuffix("es" if plural.endswith("xes") else "s")


def dataset_name(digest: str) -> str:
    return f"datasets/{digest.removeprefix('blake3:')}"


def of_run(run: Run) -> Testimony:
    """A run made its stages' resources, or reused them; each stage of data reads what the one before made."""
    edges = [Edge(run.name, stage.resource, REUSED if stage.reused else MADE) for stage in run.stages if stage.resource]
    # All others name their parents themselves: a reused job would else point at the wrong tokenization.
    data = [stage for stage in run.stages if stage.resource.partition("/")[0] in CHAIN]
    edges += _named_inputs(data) if any(stage.kind for stage in run.stages) else _chained(data)
    return Testimony((Vertex(run.name, "run", run.spec.recipe_digest, title_of(run)),), tuple(strongest(edges)))


def strongest(edges: Iterable[Edge]) -> list[Edge]:
    """The last edge of each pair; one without descent only if the pair has no other."""
    weak, strong = dict[tuple[str, str], Edge](), dict[tuple[str, str], Edge]()
    for edge in edges:
        (weak if edge.relation in WEAK else strong)[edge.parent, edge.child] = edge
    return list({**weak, **strong}.values())


def _named_inputs(data: Iterable[Stage]) -> Iterator[Edge]:
    """The declared inputs of each data stage; earlier datasets that it was compared with are not ancestors.

    Those of a reused stage are equal to the inputs that it was made from, and need not be the same.
    """
    for stage in data:
        for each in stage.inputs:
            if each.role != "against":
                read = "kept out" if each.role == "held_out" else READ
                yield Edge(each.resource, stage.resource, EQUAL if stage.reused else read)


def _chained(data: Sequence[Stage]) -> Iterator[Edge]:
    """The same of a run that an earlier version began: each stage reads what the one before made."""
    chain = [stage.resource for stage in data if stage.name != EVALUATION]
    yield from (Edge(before, after, READ) for before, after in pairwise(chain))
    texts = [stage.resource for stage in data if stage.name == EVALUATION]
    yield from (Edge(text, name, "kept out") for text in texts for name in chain if name.startswith("dedups/"))


def of_tokenization(work: Tokenization) -> Testimony:
    # Where it was told which tokenizer to use, another one trained that.
    made = (work.dataset, "" if work.spec.tokenizer else work.tokenizer)
    edges = [Edge(work.name, name, "made") for name in made if name]
    return Testimony((Vertex(work.name, "tokenization", work.result.content_digest),), tuple(edges))


def of_resource(resource: Message) -> Testimony:
    """The digest of a resource's content, and the parents that its proto declares."""
    kind, name = kinds.kind_of(type(resource)), str(resource.name)  # type: ignore[attr-defined]
    edges = (Edge(parent, name, each.relation) for each in kind.parents for parent in each.names(resource))
    return Testimony((Vertex(name, kind_of(name), kind.content_digest(resource)),), tuple(edges))


def of_job(job: Job) -> Testimony:
    """Conversations and preferences are named by `source`: their digest is that of no dataset."""
    found = of_resource(job)
    if not job.spec.source:
        return found
    none = dataset_name(job.spec.dataset_digest)
    return Testimony(found.vertices, tuple(edge for edge in found.edges if edge.parent != none))


def of_shards(maker: str, shards: Iterable[Vertex]) -> Testimony:
    """The edges from an ingest's manifest: its folder, and the document shards that it made."""
    found = tuple(shards)
    return Testimony(found, tuple(Edge(maker, shard.name, READ) for shard in found))


def of_parents(child: str, parents: Iterable[str]) -> Testimony:
    """The parents in a manifest."""
    return Testimony(edges=tuple(Edge(parent, child, "packed") for parent in parents))


def of_checkpoint(checkpoint: Checkpoint) -> Testimony:
    """An import names its folder, whose label is the licence."""
    found = of_resource(checkpoint)
    if not (digest := checkpoint.folder_digest):
        return found
    folder = Vertex(f"folders/{digest.removeprefix('blake3:')}", "folder", digest, checkpoint.licence or UNLICENSED)
    return Testimony((Vertex(checkpoint.name, "checkpoint", digest), folder), found.edges)


_OWN: dict[type[Message], Callable[..., Testimony]] = {
    Run: of_run,
    Tokenization: of_tokenization,
    Job: of_job,
    Checkpoint: of_checkpoint,
}
"""Kinds that say more than their fields: what they made, or what a digest is of."""

KINDS = tuple(kind for kind in kinds.every_kind() if kind.digest)
"""The kinds that the graph is made of."""


def testimony(resource: Message) -> Testimony:
    """The content and the parents of a resource."""
    return _OWN.get(type(resource), of_resource)(resource)


Neighbours = Callable[[list[str]], Iterator[Edge]]


def walk(start: str, *, up: bool, neighbours: Neighbours, limit: int, readers: bool = False) -> Walk:
    """Breadth first from `start`; `neighbours` gives the edges of names in the direction of the walk.

    A walk up has an edge without descent only to the runs that reused `start` itself, and to an equal input where no
    other is known, as of a result that no run made. With `readers` it has all runs that reused something, as those of
    a document, which read its text.
    """
    found, seen, front = Walk([start]), {start}, [start]
    while front:
        reached = []
        edges = sorted(set(neighbours(front)))
        known = {edge.child for edge in edges if edge.relation == READ}
        for edge in edges:
            if up and edge.relation == REUSED and edge.child != start and not readers:
                continue
            if up and edge.relation == EQUAL and edge.child in known:
                continue
            end = edge.parent if up else edge.child
            if end not in seen:
                if len(seen) >= limit:
                    found.truncated = True
                    continue
                seen.add(end)
                reached.append(end)
            found.edges.append(edge)
        found.names += reached
        front = reached
    return found
