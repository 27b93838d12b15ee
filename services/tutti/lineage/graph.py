"""The graph of resources: what each kind of resource says about itself and its parents.

Promises: pure; the same resources give the same graph in whatever order they are folded; an edge may come before its
vertices.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from google.protobuf.message import Message

from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.ingest.v1 import Crawl, Filter, Ingest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.sampling.v1 import Export, Sample
from tutti.contracts.scheduler.v1 import Job
from tutti.contracts.tokenization.v1 import Dataset, Index, Tokenization, Tokenizer

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
    """What one resource or manifest says."""

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
    """A run made its stages' resources; each stage of data reads what the one before made."""
    made = [stage.resource for stage in run.stages if stage.resource]
    edges = [Edge(run.name, name, "made") for name in made]
    # What reads a dataset or a checkpoint says so itself: a reused job would else point at the wrong tokenization.
    own = ("jobs/", "indexes/", "samples/")
    data = [stage for stage in run.stages if stage.resource and not stage.resource.startswith(own)]
    chain = [stage.resource for stage in data if stage.name != EVALUATION]
    edges += [Edge(before, after, "read") for before, after in pairwise(chain)]
    texts = [stage.resource for stage in data if stage.name == EVALUATION]
    edges += [Edge(text, name, "kept out") for text in texts for name in chain if name.startswith("dedups/")]
    return Testimony((Vertex(run.name, "run", run.spec.recipe_digest, run.spec.title),), tuple(edges))


def of_crawl(crawl: Crawl) -> Testimony:
    since = crawl.spec.since
    edges = (Edge(since, crawl.name, "revisited"),) if since else ()
    return Testimony((Vertex(crawl.name, "crawl", crawl.site_digest),), edges)


def of_ingest(ingest: Ingest) -> Testimony:
    return Testimony((Vertex(ingest.name, "ingest", ingest.result.content_digest),))


def of_filter(found: Filter) -> Testimony:
    return Testimony((Vertex(found.name, "filter", found.result.content_digest),))


def of_dedup(dedup: Dedup) -> Testimony:
    return Testimony((Vertex(dedup.name, "dedup", dedup.result.content_digest),))


def of_tokenization(work: Tokenization) -> Testimony:
    # Where it was told which tokenizer to use, another one trained that.
    made = (work.dataset, "" if work.spec.tokenizer else work.tokenizer)
    edges = [Edge(work.name, name, "made") for name in made if name]
    return Testimony((Vertex(work.name, "tokenization", work.result.content_digest),), tuple(edges))


def of_dataset(dataset: Dataset) -> Testimony:
    return Testimony(
        (Vertex(dataset.name, "dataset", dataset.content_digest),),
        (Edge(dataset.tokenizer, dataset.name, "encoded"),),
    )


def of_tokenizer(tokenizer: Tokenizer) -> Testimony:
    return Testimony((Vertex(tokenizer.name, "tokenizer", tokenizer.content_digest),))


def of_job(job: Job) -> Testimony:
    datasets = (job.spec.dataset_digest, *(each.digest for each in job.spec.mixed))
    edges = tuple(Edge(dataset_name(digest), job.name, "trained") for digest in datasets)
    return Testimony((Vertex(job.name, "job", job.spec.training_digest),), edges)


def of_checkpoint(checkpoint: Checkpoint) -> Testimony:
    edges = [Edge(checkpoint.job if "/" in checkpoint.job else f"jobs/{checkpoint.job}", checkpoint.name, "made")]
    if checkpoint.parent:
        edges.append(Edge(checkpoint.parent, checkpoint.name, "resumed"))
    return Testimony((Vertex(checkpoint.name, "checkpoint", checkpoint.state_digest),), tuple(edges))


def of_index(index: Index) -> Testimony:
    edges = (Edge(index.dataset, index.name, "indexed"),) if index.dataset else ()
    return Testimony((Vertex(index.name, "index", index.result.content_digest),), edges)


def of_sample(sample: Sample) -> Testimony:
    edge = Edge(sample.spec.checkpoint, sample.name, "continued")
    return Testimony((Vertex(sample.name, "sample", sample.result.content_digest),), (edge,))


def of_export(export: Export) -> Testimony:
    edge = Edge(export.spec.checkpoint, export.name, "exported")
    return Testimony((Vertex(export.name, "export", export.result.content_digest),), (edge,))


def of_shards(maker: str, shards: Iterable[Vertex]) -> Testimony:
    """What the manifest of an ingest says: it read these document shards out of its folder."""
    found = tuple(shards)
    return Testimony(found, tuple(Edge(maker, shard.name, "read") for shard in found))


def of_parents(child: str, parents: Iterable[str]) -> Testimony:
    """What a manifest says of its parents."""
    return Testimony(edges=tuple(Edge(parent, child, "packed") for parent in parents))


_SPEAKERS: dict[type[Message], Callable[..., Testimony]] = {
    Run: of_run,
    Crawl: of_crawl,
    Ingest: of_ingest,
    Filter: of_filter,
    Dedup: of_dedup,
    Tokenization: of_tokenization,
    Dataset: of_dataset,
    Tokenizer: of_tokenizer,
    Job: of_job,
    Checkpoint: of_checkpoint,
    Index: of_index,
    Sample: of_sample,
    Export: of_export,
}
KINDS = tuple(_SPEAKERS)


def testimony(resource: Message) -> Testimony:
    """What a resource says of itself and its parents."""
    return _SPEAKERS[type(resource)](resource)


Neighbours = Callable[[list[str]], Iterator[Edge]]


def walk(start: str, *, up: bool, neighbours: Neighbours, limit: int) -> Walk:
    """Breadth first from `start`; `neighbours` gives the edges of names in the direction of the walk."""
    found, seen, front = Walk([start]), {start}, [start]
    while front:
        reached = []
        for edge in sorted(set(neighbours(front))):
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
