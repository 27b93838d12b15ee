"""`tutti status`: what runs where, what waits, and what to do about it, on one screen.

Promises: it only reads; the verdict comes first, and every problem names its remedy.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tutti.chassis.enums import word
from tutti.chassis.errors import Unavailable
from tutti.cli.advance import Advance, far
from tutti.cli.connection import connected, connection_options
from tutti.cli.output import JSON, output_option, print_json
from tutti.cli.progress import training_loss
from tutti.client import Client
from tutti.client.overview import SECONDS, Overview, look
from tutti.client.plain import Plain
from tutti.client.titles import title_of
from tutti.contracts.admin.v1 import DescribeResponse, ListDeadLettersRequest
from tutti.contracts.common.v1 import STATE_RUNNING
from tutti.contracts.pipeline.v1 import Run, Stage
from tutti.contracts.scheduler.v1 import Job, JobState, Node, NodeState
from tutti.records.counts import counted
from tutti.report.hints import typed
from tutti.report.stages import trains
from tutti.report.values import brief


@dataclass(frozen=True)
class Status:
    """The answers of the services. `remedy` says how an agent is started."""

    address: str
    overview: Overview
    stages: Sequence[Plain]
    dead_letters: int
    remedy: str

    @property
    def version(self) -> str:
        """The version of the services that answered."""
        return next((each.version for each in self.overview.copies if each.version), "")

    def problems(self) -> Iterator[str]:
        """Problems that keep work from being done, with their remedies."""
        yield from self.overview.problems(start=self.remedy, letters=False)
        if self.dead_letters:
            yield f"{counted(self.dead_letters, 'event')} could not be handled: `tutti events dead ls` lists them"

    def plain(self) -> Plain:
        """The same for scripts."""
        return {
            "ok": not list(self.problems()),
            "problems": list(self.problems()),
            "address": self.address,
            "version": self.version,
            "services": [
                {
                    "name": each.info.name,
                    "ready": each.info.ready,
                    "reason": each.info.reason,
                    "address": each.address,
                    "process": each.info.process,
                    "leader": each.info.leader,
                    "term": each.info.term,
                }
                for each in self.overview.copies
            ],
            "nodes": [
                {"name": each.name, "state": _state(each), "slots": each.slots, "reason": each.reason}
                for each in self.overview.work.nodes
            ],
            "jobs": [
                {"name": each.name, "state": _state(each), "step": each.step, "reason": each.reason}
                for each in self.overview.work.jobs
            ],
            "runs": list(self.stages),
            "dead_letters": self.dead_letters,
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Rows of a heading and a text, the verdict first."""
        problems = list(self.problems())
        yield "status", "ok" if not problems else problems[0]
        yield from (("", each) for each in problems[1:])
        yield "platform", f"{self.version} at {self.address}"
        infos = [each.info for each in self.overview.copies]
        ready = {each.name for each in infos if each.ready}
        yield "services", f"{len(ready)} of {len({each.name for each in infos})} ready"
        for head, led in _headed("leaders", _led(infos)):
            yield head, led
        for head, node in _headed("nodes", self.overview.work.nodes):
            assigned = f", {counted(len(node.assignments), 'assignment')}" if node.assignments else ""
            yield head, f"{node.name} {_state(node)}, {counted(node.slots, 'slot')}{assigned}"
        if not self.overview.work.nodes:
            yield "nodes", "none"
        for head, stage in _headed("runs", self.stages):
            progress = f" {stage['progress']}" if stage["progress"] else ""
            yield head, f"{brief(stage['run'])} {stage['title']}: {stage['stage'] or 'starts'}{progress}".rstrip()
        if not self.stages:
            yield "runs", "none is running"
        for head, job in _headed("jobs", self.overview.work.jobs):
            why = f": {job.reason}" if job.reason else ""
            yield head, f"{brief(job.name)} {_state(job)}, step {job.step:,}{why}"


def _led(infos: Sequence[DescribeResponse.ServiceInfo]) -> list[str]:
    """A line for each process that leads: what it leads, in which terms."""
    led: dict[str, dict[str, None]] = {}
    for each in infos:
        if each.term:
            led.setdefault(each.leader or "nobody", {})[f"{each.name} (term {each.term})"] = None
    return [f"{who} leads {', '.join(names)}" for who, names in led.items()]


def _headed(head: str, items: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each item, the first with the heading of all."""
    return ((head if place == 0 else "", each) for place, each in enumerate(items))


def _state(resource: Job | Node) -> str:
    if isinstance(resource, Job):
        return word(JobState.DESCRIPTOR, JobState.Name(resource.state))
    return word(NodeState.DESCRIPTOR, NodeState.Name(resource.state))


def read(client: Client, data_dir: Path) -> Status:
    """Ask the services. Raises Problem, Unreachable."""
    overview = look(client.channel)
    if all(each.problem for each in overview.copies):
        raise next(each.problem for each in overview.copies if each.problem)
    jobs = {job.name: job for job in overview.work.jobs}
    runs = [run for run in overview.work.runs if run.state == STATE_RUNNING]
    return Status(
        client.address("pipeline"),
        overview,
        [_current(client, run, jobs) for run in runs],
        _dead_letters(client),
        f"`{typed('tutti down', data_dir)}` and `{typed('tutti up', data_dir)}` start the platform with one",
    )


def _dead_letters(client: Client) -> int:
    """The number of dead letters; 0 where a service is away, which is a problem of its own."""
    with contextlib.suppress(Unavailable):
        return len(client.admin.ListDeadLetters(ListDeadLettersRequest(), timeout=SECONDS).dead_letters)
    return 0


def _current(client: Client, run: Run, jobs: dict[str, Job]) -> Plain:
    """The stage that a run is at, and how far it is."""
    stage = next((each for each in run.stages if each.state == STATE_RUNNING), Stage())
    progress = ""
    if trains(stage) and (job := jobs.get(stage.resource)):
        progress = f"step {job.step:,}, {training_loss(job)}" if job.step else _state(job)
    elif known := Advance().of(client, stage):
        progress = f"{far(known)} {known.unit if known.unit != 'bytes' else ''}".rstrip()
    return {"run": run.name, "title": title_of(run), "stage": stage.name, "progress": progress}


@click.command(short_help="Show running and waiting work, and problems.")
@output_option
@connection_options
def status(output: str, **where: Any) -> None:
    """Show the services, nodes, unfinished runs and jobs of the platform, and problems.

    Exit code 0 if all is well, 1 if something needs attention, 3 if no platform answers.
    """
    with connected(**where) as client:
        found = read(client, where["data_dir"])
    if output == JSON:
        print_json(found.plain())
    else:
        for head, text in found.lines():
            click.echo(f"{head:10}{text}")
    if list(found.problems()):
        raise SystemExit(1)
