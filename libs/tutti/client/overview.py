"""The overview of a platform: copies of services, nodes, and work that has not ended, as the services tell it.

Promises: it only reads; every question is asked at the same time as the others and has a deadline; a service that does
not answer is named with the reason, and takes nothing else away.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import grpc

from tutti.chassis.errors import Problem, Unavailable
from tutti.chassis.rpc import kinds, remedies
from tutti.chassis.rpc.calls import PlainChannel
from tutti.contracts.admin.v1 import DescribeRequest, DescribeResponse, ListChangesRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.common.v1 import STATE_PENDING, STATE_RUNNING, State
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_CANCELLED,
    JOB_STATE_DONE,
    JOB_STATE_FAILED,
    JOB_STATE_QUEUED,
    JOB_STATE_UNSPECIFIED,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Job,
    JobState,
    Node,
)

T = TypeVar("T")
Channels = Callable[[str], grpc.Channel]
SECONDS = 2.0
NOT_OPEN = (JOB_STATE_UNSPECIFIED, JOB_STATE_DONE, JOB_STATE_FAILED, JOB_STATE_CANCELLED)
OPEN_JOBS = tuple(JobState.Name(each) for each in JobState.values() if each not in NOT_OPEN)
OPEN_RUNS = tuple(State.Name(each) for each in (STATE_PENDING, STATE_RUNNING))
JOB_FIELDS = ("name", "state", "reason", "epoch", "step", "loss", "skipped", "skipped_in_a_row", "shape", "spec.steps")
RUN_FIELDS = ("name", "state", "reason", "stages", "spec.title", "labels.title", "started_at")


@dataclass(frozen=True)
class Copy:
    """One process of a service. Where none answered, `problem` says why, and `info` has it as the reason."""

    address: str
    version: str
    info: DescribeResponse.ServiceInfo
    problem: Problem | None = None


@dataclass(frozen=True)
class Work:
    """Every node, and the jobs and runs that have not ended; `missing`: which services did not answer, in words."""

    nodes: Sequence[Node] = ()
    jobs: Sequence[Job] = ()
    runs: Sequence[Run] = ()
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class Overview:
    copies: Sequence[Copy]
    work: Work = field(default_factory=Work)

    def problems(self, *, start: str = remedies.START_AGENT, letters: bool = True) -> Iterator[str]:
        """Problems that keep work from being done, with their remedies.

        `start` says how an agent is started. Without `letters`, dead letters are left out.
        """
        names = [copy.info.name for copy in self.copies]
        for copy in self.copies:
            if not copy.info.ready:
                where = f" at {copy.address}" if names.count(copy.info.name) > 1 else ""
                yield f"{copy.info.name}{where} does not serve: {copy.info.reason or '`tutti doctor` says why'}"
        for (check, message), services in self._bad().items():
            if letters or check != "dead letters":
                yield f"{', '.join(services) if len(services) < 4 else f'{len(services)} services'}: {check}: {message}"
        yield from self.work.missing
        for node in self.work.nodes:
            if node.state == NODE_STATE_LOST:
                yield remedies.lost(node.name, node.reason)
        waiting = [job for job in self.work.jobs if job.state == JOB_STATE_QUEUED]
        if waiting and not any(node.state == NODE_STATE_READY for node in self.work.nodes):
            yield f"{remedies.waiting(len(waiting))} and no agent is ready: {start}"

    def _bad(self) -> dict[tuple[str, str], list[str]]:
        """The findings of copies that serve and that need attention, with the services that have them."""
        found: dict[tuple[str, str], list[str]] = {}
        for copy in self.copies:
            for each in copy.info.findings:
                if not each.ok and copy.info.ready and each.check != "health":
                    services = found.setdefault((each.check, each.message), [])
                    if each.service not in services:
                        services.append(each.service)
        return found


def look(channel: Channels) -> Overview:
    """Ask every service."""
    return Overview(copies(channel), work(channel))


def copies(channel: Channels, seconds: float = SECONDS) -> list[Copy]:
    """Ask every copy of every service for its health, by name of the service."""
    deadline = time.monotonic() + seconds
    places = _together({each: partial(_copies, channel(each)) for each in kinds.every_service()}, seconds)
    found = [Copy("", "", _away(name, each), each) for name, each in places.items() if isinstance(each, Problem)]
    doors: dict[str, tuple[grpc.Channel, list[str]]] = {}
    for service, several in places.items():
        for address, one in several.items() if not isinstance(several, Problem) else ():
            doors.setdefault(address or service, (one, []))[1].append(service)
    left = max(deadline - time.monotonic(), 0.1)
    answers = _together({each: partial(_described, one, left) for each, (one, _) in doors.items()}, left)
    for address, answer in answers.items():
        found += _told(address, answer, doors[address][1])
    ordered = sorted(found, key=lambda copy: (copy.info.name, copy.address))
    return list({(copy.info.name, copy.info.process or copy.address): copy for copy in ordered}.values())


def work(channel: Channels, seconds: float = SECONDS) -> Work:
    """Ask for nodes, and for jobs and runs that have not ended."""
    damaged: list[str] = []
    listed = partial(_listed, channel, seconds, damaged.append)
    asked: dict[tuple[str, str], Callable[[], list[Any]]] = {("nodes", ""): partial(listed, "nodes")}
    for plural, states, fields in (("jobs", OPEN_JOBS, JOB_FIELDS), ("runs", OPEN_RUNS, RUN_FIELDS)):
        for state in states:
            asked[plural, state] = partial(listed, plural, f"state={state}", fields)
    found: dict[str, dict[str, Any]] = {"nodes": {}, "jobs": {}, "runs": {}}
    missing: dict[str, str] = {}
    for (plural, _), answer in _together(asked, seconds).items():
        if isinstance(answer, Problem):
            missing.setdefault(plural, f"{plural} are unknown: {kinds.owners()[plural]}: {answer.message}")
        else:
            found[plural].update((each.name, each) for each in answer)  # one that changes its state is in two lists
    nodes, jobs, runs = ([found[each][name] for name in sorted(found[each])] for each in ("nodes", "jobs", "runs"))
    return Work(nodes, jobs, runs, [*missing.values(), *dict.fromkeys(damaged)])


def changes(channel: Channels, seconds: float = SECONDS) -> str:
    """A text that is another one after every change of a node, job or run."""

    def counted(service: str) -> str:
        answer = AdminStub(channel(service)).ListChanges(ListChangesRequest(service=service), timeout=seconds)
        return f"{service} {sorted(answer.changes.items())}"

    answers = _together({each: partial(counted, each) for each in ("scheduler", "pipeline")}, seconds)
    return "; ".join(each if isinstance(each, str) else "away" for each in answers.values())


def _copies(channel: grpc.Channel) -> Mapping[str, grpc.Channel]:
    """Raises Unreachable."""
    return channel.copies() if isinstance(channel, PlainChannel) else {"": channel}


def _described(channel: grpc.Channel, seconds: float) -> DescribeResponse:
    """Raises Problem."""
    return AdminStub(channel).Describe(DescribeRequest(), timeout=seconds)


def _told(address: str, answer: DescribeResponse | Problem, services: Sequence[str]) -> Iterator[Copy]:
    """The copies at an address where these services are expected."""
    if isinstance(answer, Problem):
        yield from (Copy(address, "", _away(name, answer), answer) for name in services)
        return
    infos = {info.name: info for info in answer.services}
    for name in services:
        if name in infos:
            yield Copy(address, answer.version, infos[name])
        else:
            why = f"it is not served at {address}: start it there, or set services.{name} to its address"
            yield Copy(address, "", DescribeResponse.ServiceInfo(name=name, reason=why))


def _away(service: str, problem: Problem) -> DescribeResponse.ServiceInfo:
    return DescribeResponse.ServiceInfo(name=service, reason=problem.message)


def _listed(
    channel: Channels,
    seconds: float,
    damaged: Callable[[str], None],
    plural: str,
    text: str = "",
    fields: Sequence[str] = (),
) -> list[Any]:
    """Raises Problem."""
    kind = kinds.named(plural)
    pages = kind.pages(channel(kind.owner), text, fields, seconds=seconds, damaged=damaged)
    return [each for page in pages for each in page]


K = TypeVar("K")


def _together(work: Mapping[K, Callable[[], T]], seconds: float) -> dict[K, T | Problem]:
    """Do all at the same time; of what raised a Problem, or had not returned in time, the Problem."""
    pool = ThreadPoolExecutor(max(1, min(len(work), 32)), thread_name_prefix="overview")
    # In the context of the caller, or services would be asked for nobody, who sees what belongs to every tenant.
    futures = {key: pool.submit(copy_context().run, each) for key, each in work.items()}
    wait(futures.values(), timeout=seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    found: dict[K, T | Problem] = {}
    for key, future in futures.items():
        try:
            found[key] = future.result(0) if future.done() else Unavailable(f"no answer for {seconds:.0f} s")
        except Problem as problem:
            found[key] = problem
    return found
