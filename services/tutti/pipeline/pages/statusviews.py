"""The view of the page `/status`, made of messages. Pure.

Promises: the fields are what the JSON beside the page has; times are ISO 8601 in UTC, empty where there is none;
nothing depends on the time of the call, so that a page of the same facts is the same page.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tutti.chassis.enums import word
from tutti.chassis.rpc import remedies
from tutti.client.overview import Copy, Overview
from tutti.client.titles import title_of
from tutti.contracts.common.v1 import STATE_RUNNING, State
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_RUNNING,
    NODE_STATE_DRAINING,
    NODE_STATE_LEFT,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Job,
    JobState,
    Node,
    NodeState,
)
from tutti.web.formats import skipped

SHOWN = 200  # nodes, jobs or runs
DEPENDENCIES = ("database", "event log", "blobs")
REMEDIES = {
    NODE_STATE_DRAINING: "it takes no new ranks, since it is drained",
    NODE_STATE_LEFT: "its agent was stopped; it takes ranks again when an agent starts",
}


@dataclass(frozen=True)
class CopyRow:
    """`advice` says why the copy is unhealthy and what to do; empty if it is healthy."""

    process: str
    address: str
    version: str
    healthy: bool
    since: str
    leads: bool
    advice: Sequence[str]


@dataclass(frozen=True)
class ServiceRow:
    name: str
    healthy: bool
    leader: str
    term: int
    copies: Sequence[CopyRow]


@dataclass(frozen=True)
class DependencyRow:
    """A database, event log or blob store as services see it; `services` are those that see it so."""

    name: str
    ok: bool
    message: str
    services: Sequence[str]


@dataclass(frozen=True)
class RanksRow:
    job: str
    ranks: str
    epoch: int
    stops: bool


@dataclass(frozen=True)
class NodeRow:
    name: str
    state: str
    slots: int
    used: int
    devices: Sequence[str]
    machine: str
    address: str
    advice: str
    assignments: Sequence[RanksRow]


@dataclass(frozen=True)
class JobRow:
    """`reason` says what the job waits for."""

    name: str
    state: str
    waits: bool
    step: int
    steps: int
    ranks: int
    reason: str


@dataclass(frozen=True)
class RunRow:
    """`stages` are those under way, each with its progress as far as its owner told, or what it waits for."""

    name: str
    title: str
    state: str
    stages: Sequence[str]
    reason: str


@dataclass(frozen=True)
class StatusView:
    """`problems` come with what to do; `missing` says which lists could not be read."""

    ok: bool
    problems: Sequence[str]
    services: Sequence[ServiceRow]
    dependencies: Sequence[DependencyRow]
    nodes: Sequence[NodeRow]
    more_nodes: int
    slots: int
    used: int
    jobs: Sequence[JobRow]
    more_jobs: int
    runs: Sequence[RunRow]
    more_runs: int
    missing: Sequence[str]
    start_agent: str


def status_view(found: Overview) -> StatusView:
    problems, work = list(found.problems()), found.work
    nodes = sorted((_node(each) for each in work.nodes), key=lambda row: (not row.advice, row.name))
    jobs = sorted((_job(each) for each in work.jobs), key=lambda row: (not row.waits, row.name))
    return StatusView(
        ok=not problems,
        problems=problems,
        services=list(_services(found.copies)),
        dependencies=_dependencies(found.copies),
        nodes=nodes[:SHOWN],
        more_nodes=max(0, len(nodes) - SHOWN),
        slots=sum(each.slots for each in work.nodes if each.state == NODE_STATE_READY),
        used=sum(row.used for row in nodes),
        jobs=jobs[:SHOWN],
        more_jobs=max(0, len(jobs) - SHOWN),
        runs=[_run(each) for each in work.runs[:SHOWN]],
        more_runs=max(0, len(work.runs) - SHOWN),
        missing=work.missing,
        start_agent=remedies.START_AGENT,
    )


def _services(copies: Sequence[Copy]) -> Iterator[ServiceRow]:
    for name in sorted({each.info.name for each in copies}):
        own = [each for each in copies if each.info.name == name]
        newest = max(own, key=lambda each: each.info.term).info
        rows = [_copy(each, newest.leader) for each in own]
        yield ServiceRow(name, all(row.healthy for row in rows), newest.leader, newest.term, rows)


def _copy(copy: Copy, leader: str) -> CopyRow:
    info = copy.info
    bad = [f"{each.check}: {each.message}" for each in info.findings if not each.ok and each.check != "health"]
    advice = ([] if info.ready else [info.reason or "`tutti doctor` says why"]) + bad
    return CopyRow(
        process=info.process,
        address=copy.address,
        version=copy.version,
        healthy=not advice,
        since=info.since.ToJsonString() if info.HasField("since") else "",
        leads=bool(info.process) and info.process == leader,
        advice=advice,
    )


def _dependencies(copies: Sequence[Copy]) -> list[DependencyRow]:
    found: dict[tuple[str, bool, str], list[str]] = {}
    for copy in copies:
        for each in copy.info.findings:
            if each.check in DEPENDENCIES:
                services = found.setdefault((each.check, each.ok, each.message), [])
                if copy.info.name not in services:
                    services.append(copy.info.name)
    rows = [DependencyRow(name, ok, message, services) for (name, ok, message), services in found.items()]
    return sorted(rows, key=lambda row: (row.ok, DEPENDENCIES.index(row.name), row.message))


def _node(node: Node) -> NodeRow:
    lost = node.state == NODE_STATE_LOST
    advice = remedies.lost(node.name, node.reason) if lost else REMEDIES.get(node.state, "")
    return NodeRow(
        name=node.name,
        state=word(NodeState.DESCRIPTOR, NodeState.Name(node.state)),
        slots=node.slots,
        used=0 if lost else sum(len(each.ranks) for each in node.assignments),
        devices=list(node.devices),
        machine=node.machine,
        address=node.address,
        advice=advice,
        assignments=[RanksRow(each.job, ranges(each.ranks), each.epoch, each.stop) for each in node.assignments],
    )


def _job(job: Job) -> JobRow:
    return JobRow(
        name=job.name,
        state=word(JobState.DESCRIPTOR, JobState.Name(job.state)),
        waits=job.state != JOB_STATE_RUNNING,
        step=job.step,
        steps=job.spec.steps,
        ranks=job.shape.data_parallel,
        reason=", ".join(filter(None, (job.reason, skipped(job.skipped, job.skipped_in_a_row)))),
    )


def _run(run: Run) -> RunRow:
    return RunRow(
        name=run.name,
        title=title_of(run) or run.name,
        state=word(State.DESCRIPTOR, State.Name(run.state)),
        stages=[_stage(each) for each in run.stages if each.state == STATE_RUNNING],
        reason=run.reason,
    )


def _stage(stage: Stage) -> str:
    resource = f" ({stage.resource})" if stage.resource else ""
    return f"{stage.name}{resource}{f': {stage.reason}' if stage.reason else ''}"


def ranges(ranks: Iterable[int]) -> str:
    """Ranks as people write them, such as 0-3, 6."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and rank == found[-1][1] + 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
