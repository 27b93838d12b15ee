"""Filtering as work: which documents stay, decided by what was measured of them; no text is read."""

import tempfile
from dataclasses import replace
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_file
from tutti.contracts.ingest.v1 import Filter, RuleCount
from tutti.corpus.documents.stages import FilterBody, IngestBody
from tutti.corpus.tokens.dataset import Rejected
from tutti.ingest.quality import choosing
from tutti.ingest.rpc import choice_of
from tutti.records.manifest import Kind
from tutti.staging import fetching


def work_of(host: Host) -> Work[Filter]:
    """The work of filtering."""

    def run(context: TaskContext, found: Filter) -> Outcome:
        manifest = fetching.manifest(host.blobs, found.spec.manifest_key, found.spec.content_digest, Kind.INGEST)
        read = IngestBody.read(manifest)
        if not read.measures:
            raise WorkFailed("an earlier version read the documents and measured nothing; run the recipe again")
        with tempfile.TemporaryDirectory(prefix="tutti-filter-") as scratch:
            measures = [fetching.named(host.blobs, key, Path(scratch)) for key in read.measures]
            gone = fetching.retracted(host.blobs, found.spec.retracted_key)
            wanted = replace(choice_of(found.spec, host.blobs), retracted=gone)
            made = context.pool(choosing.choose, measures, wanted, Path(scratch, "decisions.parquet"))
            if not made.documents:
                raise WorkFailed(nothing_stays(made))
            decisions = put_file(host.blobs, "ingest/decisions", made.path)
        body = FilterBody(
            shards=read.shards,
            decisions=decisions,
            documents=made.documents,
            rejected=(*read.rejected, *(Rejected(*each) for each in made.rules)),
            rejections=read.rejections,
        )
        result = publish(host.blobs, "ingest/filters", body.manifest(producer=version.producer("ingest")), data_bytes=0)

        def fill(unit: Unit, found: Filter) -> None:
            found.result.CopyFrom(result)
            found.documents, found.rejected = made.documents, made.rejected
            found.rules.extend(RuleCount(rule=rule, documents=count) for rule, count in made.rules)

        return fill

    return Work(host, "filters", Filter, run, choosing.LOGIC_VERSION)


def nothing_stays(made: choosing.FilterResult) -> str:
    """A message that names the rules that rejected everything."""
    reasons = ", ".join(f"{count} by {rule}" for rule, count in made.rules)
    return (
        f"all {made.rejected} documents were rejected ({reasons}); change quality.rules, quality.thresholds or "
        "quality.languages of the recipe"
    )
