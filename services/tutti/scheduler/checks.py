"""Doctor's checks of the scheduler: nodes, the queue, and the progress of running jobs."""

from collections.abc import Callable

from tutti.chassis.rpc import remedies
from tutti.chassis.rpc.remedies import START_AGENT
from tutti.chassis.service import Finding, Host
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.contracts.scheduler.v1 import (
    JOB_STATE_QUEUED,
    JOB_STATE_RUNNING,
    NODE_STATE_LOST,
    NODE_STATE_READY,
    Job,
)
from tutti.scheduler.tables import Tables

STILL_SECONDS = 600
"""In which no rank computes anything, after which a job that runs is pointed out."""


def checks(host: Host, tables: Tables) -> list[Callable[[], Finding]]:
    """Return the checks of the scheduler."""

    def nodes() -> Finding:
        return host.units.run(lambda unit: _nodes(unit, tables))

    def queue() -> Finding:
        return host.units.run(lambda unit: _queue(unit, tables))

    def progress() -> Finding:
        return host.units.run(lambda unit: _progress(unit, tables))

    return [nodes, queue, progress]


def _nodes(unit: Unit, tables: Tables) -> Finding:
    found = tables.nodes.select(unit)
    ready = [node for node in found if node.state == NODE_STATE_READY]
    lost = [remedies.lost(node.name, node.reason) for node in found if node.state == NODE_STATE_LOST]
    slots = sum(node.slots for node in ready)
    said = f"{len(ready)} of {len(found)} ready with {slots} slots" if ready else f"no agent is ready: {START_AGENT}"
    return Finding("nodes", not lost, "; ".join([*lost, said]))


def _queue(unit: Unit, tables: Tables) -> Finding:
    waiting = tables.jobs.select(unit, state=JOB_STATE_QUEUED)
    if not waiting:
        return Finding("queue", True, "no job waits")
    ready = [node for node in tables.nodes.select(unit) if node.state == NODE_STATE_READY]
    jobs = f"{remedies.waiting(len(waiting))}: {waiting[0].name}: {waiting[0].reason}"
    return Finding("queue", bool(ready), jobs if ready else f"{jobs}; {START_AGENT}")


def _progress(unit: Unit, tables: Tables) -> Finding:
    running = tables.jobs.select(unit, state=JOB_STATE_RUNNING)
    trouble = [words for job in running if (words := _trouble(unit, tables, job))]
    return Finding("progress", not trouble, "; ".join(trouble) or f"{len(running)} jobs run, each with progress")


def _trouble(unit: Unit, tables: Tables, job: Job) -> str:
    if job.fruitless:
        why = f"`tutti jobs show {job.name}` says why"
        return f"{job.name} has ended {job.fruitless} times without a new checkpoint: {why}"
    attempt = tables.attempt(unit, job)
    newest = max(attempt.worked_at, attempt.spawned_at) if attempt else 0
    still = (micros(unit.now) - newest) / 1e6 if newest else 0.0
    if still < STILL_SECONDS:
        return ""
    return (
        f"{job.name} has made no progress for {still / 60:.0f} minutes: `tutti logs {job.name}` shows what its ranks do"
    )
