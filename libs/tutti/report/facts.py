"""The data of a report, read from the services that own it.

Lists are read up to a limit, and what was left out is counted; a part that nobody knows is missing, never made up.
"""

import contextlib
import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tutti.chassis.errors import NotFound, Problem, Refused
from tutti.client import READING_SECONDS, Client
from tutti.client.plain import Plain, plain
from tutti.client.resources import list_all
from tutti.client.unusable import Unusable
from tutti.contracts.committer.v1 import GetCurveRequest, GetCurveResponse
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.lineage.v1 import ShowDocumentRequest
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.tokenization.v1 import ListDatasetFilesRequest
from tutti.report import answers
from tutti.report.abilities import Answers
from tutti.report.documents import listed
from tutti.report.policies import KINDS, Policy, newest_line, stop_kl
from tutti.report.references import measured, references
from tutti.report.summary import summary
from tutti.report.texts import NEEDED, spoken
from tutti.web.rollouts import parity

EXAMPLES, CLUSTERS, MEMBERS = 3, 5, 5
POINTS = 2000
LOOK_SECONDS = 0.2
EARLIER = "duplicate/earlier"  # and earlier-near
_NAME = re.compile(r"\bdocuments/[0-9a-f]+")
REFERENCES, LANGUAGE_BYTES, LOOKED_BYTES = 4, 128 << 10, 64 << 20


@dataclass(frozen=True)
class Effort:
    """The most rows of a list that are read, the time for lineage to hear of a run that has just ended, and whether
    other tokenizers are measured.
    """

    rows: int
    seconds: float
    others: bool


WHOLE = Effort(100_000, 10.0, others=True)
BRIEF = Effort(10_000, 0.0, others=False)
"""For somebody who waits for a page."""


@dataclass(frozen=True)
class Rule:
    """Pages that went for one reason, and a few of them: (source, what was seen)."""

    name: str
    pages: int
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cluster:
    """Documents that are the same, or nearly; `stays` stands for the others, of which `members` are some.

    `earlier`: it is of an earlier dataset.
    """

    stays: str
    size: int
    members: tuple[str, ...]
    earlier: bool = False


@dataclass(frozen=True)
class Pages:
    """The outcomes of the pages of a run; `cut`: only the first of them were read."""

    rules: tuple[Rule, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    cut: bool = False


@dataclass(frozen=True)
class Facts:
    """`summary` as `tutti run -o json` prints it; `references`: other tokenizers by name, with the bytes a token that
    each has of a sample of a language; `answers`: those of its models to prompts; `policies`: their iterations.
    """

    summary: Plain
    pages: Pages = field(default_factory=Pages)
    curve: GetCurveResponse = field(default_factory=GetCurveResponse)
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    machines: tuple[str, ...] = ()
    answers: Answers = field(default_factory=Answers)
    policies: tuple[Policy, ...] = ()


def nothing(*_: object) -> None:
    """Do nothing."""


def gather(
    client: Client,
    run: Run,
    effort: Effort = WHOLE,
    *,
    warn: Callable[[str], object] = nothing,
    check: Callable[[], object] = nothing,
) -> Facts:
    """Ask for everything. Raises Problem if not even a summary is available, and what `check` raises between two polls.

    `warn` is called with the reason for a part that is left out.
    """
    found = summary(client, run, warn=warn)
    pages = Pages()
    if found["ingest"]:
        with contextlib.suppress(Problem):
            pages = _pages(client, found, effort, check)
    curve = _curve(client, found["checkpoints"][-1]["name"]) if found["checkpoints"] else GetCurveResponse()
    others: Mapping[str, Mapping[str, float]] = {}
    if effort.others and found["dataset"] and found["dataset"]["languages"]:
        with contextlib.suppress(Problem, Unusable, OSError):
            others = _beside(client, found["dataset"]["name"])
    machines = _machines(client, found["train"])
    judged = answers.read(client, run, found["models"])
    return Facts(found, pages, curve, others, machines, judged, tuple(_policies(client, run, found["models"])))


def _policies(client: Client, run: Run, models: Iterable[Plain]) -> Iterator[Policy]:
    """Yield the policies of a run; one that nobody knows is missing."""
    newest = {each["stage"]: each["checkpoint"] for each in models}
    for stage in run.stages:
        if stage.kind in KINDS and stage.resource:
            with contextlib.suppress(Problem):
                iterations = newest_line(list_all(client, "experiences", f"job={stage.resource}"))
                training = client.scheduler.GetJob(GetRequest(name=stage.resource)).spec.training
                compared = parity(_curve(client, newest[stage.name])) if stage.name in newest else []
                yield Policy(stage.name, iterations, stop_kl(training), compared)


def _curve(client: Client, checkpoint: str) -> GetCurveResponse:
    """Return the curve of a checkpoint, or an empty one if it cannot be read."""
    with contextlib.suppress(Problem):
        return client.committer.GetCurve(GetCurveRequest(name=checkpoint, max_points=POINTS), timeout=READING_SECONDS)
    return GetCurveResponse()


def _machines(client: Client, job: Plain | None) -> tuple[str, ...]:
    """Return the machines of the newest attempt, as their agents described them."""
    found = dict[str, None]()
    if job and job["topology_version"]:
        with contextlib.suppress(Problem):
            name = f"topologies/{job['name'].removeprefix('jobs/')}/{job['topology_version']}"
            topology = client.scheduler.GetTopology(GetRequest(name=name))
            for node in sorted({each.node for each in topology.placement}):
                machine = client.scheduler.GetNode(GetRequest(name=node)).machine
                found[f"{machine} ({node})" if machine else node] = None
    return tuple(found)


def rules_of(rows: Iterable[Plain], left_out: Mapping[str, int]) -> tuple[Rule, ...]:
    """Rejected pages by their reason, the most frequent first; `left_out` counts those that no row names, too."""
    counts, examples = Counter[str](), dict[str, list[tuple[str, str]]]()
    for row in rows:
        name = row["what"].partition("/")[2]
        counts[name] += 1
        if len(kept := examples.setdefault(name, [])) < EXAMPLES:
            kept.append((row["source"], row["detail"]))
    counts.update({name: left_out[name] - counts[name] for name in counts if name in left_out})
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(Rule(name, count, tuple(examples[name])) for name, count in ordered)


def clusters_of(rows: Iterable[Plain]) -> list[Cluster]:
    """The biggest; `stays` is the name of the document."""
    others, earlier = dict[str, list[str]](), set[str]()
    for row in rows:
        (stays,) = _NAME.findall(row["detail"])
        others.setdefault(stays, []).append(row["source"])
        earlier |= {stays} if row["what"].startswith(EARLIER) else set()
    ordered = sorted(others.items(), key=lambda each: (-len(each[1]), each[0]))[:CLUSTERS]
    return [Cluster(stays, 1 + len(found), tuple(found[:MEMBERS]), stays in earlier) for stays, found in ordered]


def _pages(client: Client, found: Plain, effort: Effort, check: Callable[[], object]) -> Pages:
    run, chosen, dedup = found["run"]["name"], found["filter"], found["dedup"]
    left_out = {each["reason"]: each["pages"] for each in found["ingest"]["left_out"]}
    rules = [each["rule"] for each in chosen["rules"] if each["documents"]] if chosen else []
    repeated = [["duplicate"]] if dedup and dedup["duplicates"] else []
    dropped = _rows(client, run, "duplicate", repeated, effort, check)
    rejected = _rows(client, run, "rejected", [names for names in (left_out, rules) if names], effort, check)
    clusters = tuple(replace(each, stays=_source(client, each.stays)) for each in clusters_of(dropped))
    return Pages(rules_of(rejected, left_out), clusters, cut=effort.rows in (len(rejected), len(dropped)))


def heard(rows: Iterable[Plain], stages: Iterable[Collection[str]]) -> bool:
    """True if there are rows of all stages: for each, one of the names with which it leaves pages out is enough."""
    seen = {name for row in rows for name in (row["what"].partition("/")[0], row["what"].partition("/")[2])}
    return all(not seen.isdisjoint(names) for names in stages)


def _beside(client: Client, dataset: str) -> dict[str, dict[str, float]]:
    """The first tokenizers that this machine has, on a little of each language; none where little means to read much.

    Raises Problem, Unusable, OSError.
    """
    others = dict(itertools.islice(references(os.environ, lambda _: None), REFERENCES))
    if not others:
        return {}
    files = client.tokenization.ListDatasetFiles(ListDatasetFilesRequest(name=dataset)).files
    if sum(each.bytes for each in files if each.holds in NEEDED) > LOOKED_BYTES:
        return {}
    found = client.tokenization.GetDataset(GetRequest(name=dataset))
    sample = spoken(client, found, language_bytes=LANGUAGE_BYTES, looked_bytes=LOOKED_BYTES)
    rows = measured(others, sample.enough if sample.told else ())
    by_name: dict[str, dict[str, float]] = {}
    for row in rows:
        by_name.setdefault(row["tokenizer"], {})[row["sample"]] = row["bytes_a_token"]
    return by_name


def _rows(
    client: Client,
    run: str,
    what: str,
    stages: Iterable[Collection[str]],
    effort: Effort,
    check: Callable[[], object],
) -> list[Plain]:
    """Waits a little for lineage, which hears of a run's stages after they ended."""
    deadline = time.monotonic() + effort.seconds
    while True:
        with contextlib.suppress(NotFound, Refused):
            rows = [plain(each) for each in itertools.islice(listed(client, run, what, ""), effort.rows)]
            if heard(rows, stages) or time.monotonic() > deadline:
                return rows
        if time.monotonic() > deadline:
            return []
        check()
        time.sleep(LOOK_SECONDS)


def _source(client: Client, document: str) -> str:
    try:
        found = client.lineage.ShowDocument(ShowDocumentRequest(document=document))
    except Problem:
        return document
    return str(found.source)
