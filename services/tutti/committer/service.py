"""The committer service: decides which snapshots are checkpoints, and makes them visible.

Promises: a manifest is visible only after its decision, and every decision becomes visible; lower epochs are refused
for ever; bytes are believed only when a process that did not write them has read them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from tutti.chassis.events.event import Event
from tutti.chassis.rpc import standard
from tutti.chassis.service import Consumed, Finding, Host, Service
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.tables import micros
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler
from tutti.checkpoints.keys import IMPORTS, MANIFESTS, REPORTS, SHARDS
from tutti.committer.commits import Commits
from tutti.committer.export import export
from tutti.committer.garbage import Collector
from tutti.committer.imports import Imports
from tutti.committer.opening import Opening
from tutti.committer.pruning import Pruning
from tutti.committer.records import Records
from tutti.committer.rpc import CommitterApi
from tutti.committer.settings import CommitterSettings
from tutti.committer.shards import Shards
from tutti.committer.tables import Tables
from tutti.committer.troubles import Troubles
from tutti.committer.uses import Uses
from tutti.contracts.committer.v1 import CHECKPOINT_STATE_QUARANTINED, Checkpoint, DivergenceDetected, Line
from tutti.contracts.committer.v1.committer_pb2 import DESCRIPTOR
from tutti.contracts.scheduler.v1 import Job
from tutti.corpus.tokens.dataset import TOKENIZERS


def build(host: Host) -> Service:
    settings = host.settings(CommitterSettings)
    adopt_micros = int(settings.adopt_seconds * 1e6)
    tables = Tables(host.metadata)
    records = Records(tables)
    checkpoints = Resource(
        host.metadata,
        "checkpoints",
        Checkpoint,
        {each: attrgetter(each) for each in ("job", "line", "state")},
        numbered=True,
    )
    lines = Resource(host.metadata, "lines", Line, {"job": attrgetter("job")}, numbered=True)
    commits = Commits(host, records, settings, checkpoints, lines)

    def advance(job: str) -> bool:
        did = commits.finish(job)
        commits.compare_late(job)
        pruning.sweep(job)
        return did

    def look_around(job: str) -> None:
        # A job that failed or was cancelled stays unfinished for ever; its store is searched again when it is opened.
        if host.units.run(lambda unit: records.is_heard_of(unit, job, micros(unit.now) - adopt_micros)):
            shards.adopt(job)
        shards.impatient(job)

    def sweep(job: str) -> None:
        collector.collect(job)

    def decisions() -> Finding:
        """For the doctor: whether the rows that decide stand as they were written."""
        found = host.units.run(records.damaged)
        return Finding("decisions", not found, "; ".join(found) or "every row has the digest that it was written with")

    def condemned(unit: Unit) -> Iterator[str]:
        for each in checkpoints.select(unit, state=int(CHECKPOINT_STATE_QUARANTINED)):
            name = ".".join(each.name.split("/")[1:]) + "."
            yield from (f"{SHARDS}{name}", f"{MANIFESTS}{name}", f"{IMPORTS}{name.partition('.')[0]}/")

    def on_job(unit: Unit, events: Sequence[Event]) -> None:
        commits.suspects.on_job(unit, events)
        uses.on_job(unit, events)

    troubles = Troubles(records, lines)
    reconciler = Reconciler("commits", host, open=records.open_jobs, advance=advance, tell=troubles.of_commits)
    adopter = Reconciler("reports", host, open=records.unfinished_jobs, advance=look_around, tell=troubles.of_reports)
    shards = Shards(host, records, settings, reconciler.wake)
    collector = Collector(host, records, settings)
    sweeper = Reconciler("garbage", host, open=collector.due, advance=sweep, tell=troubles.of_garbage)
    uses = Uses(tables.uses)
    pruning = Pruning(host, records, settings, checkpoints, lines, uses)
    opening = Opening(host, records, commits, checkpoints, lines, commits.suspects, uses, shards.adopt)
    imports = Imports(host, commits, settings, checkpoints)
    kept = (standard.Stored(host.units, checkpoints), standard.Stored(host.units, lines), imports.work)
    api = CommitterApi(
        host,
        checkpoints,
        lines,
        opening=opening,
        shards=shards,
        commits=commits,
        pruning=pruning,
        records=records,
        collector=collector,
        imports=imports,
    )
    return Service(
        name="committer",
        reads=["trainer"],
        writes=[TOKENIZERS],
        deletes=[REPORTS, SHARDS],
        resources=[checkpoints, lines, imports.work.resource],
        tables=[
            tables.epochs,
            tables.holders,
            tables.shards,
            tables.decisions,
            tables.divergences,
            tables.folders,
            tables.remains,
            tables.uses,
        ],
        serves=[standard.served(DESCRIPTOR.services_by_name["CommitterService"], api, *kept)],
        facts=[DivergenceDetected],
        consumes=[Consumed(Job, on_job), *uses.consumed()],
        tasks=[shards.task(), imports.work.task()],
        loops=[reconciler, adopter, sweeper],
        export=lambda unit: export(unit, records, checkpoints, lines),
        checks=[decisions],
        condemned=condemned,
        migrations=Path(__file__).with_name("migrations"),
    )
