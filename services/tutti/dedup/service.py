"""The dedup service: drops duplicates from a fixed set of document shards.

Promises: of documents with the same text, or nearly the same where that is asked for, the one with the smallest id
stays, whatever the order or number of shards.
"""

import tempfile
from pathlib import Path

from tutti.chassis import staging, version
from tutti.chassis.service import Host, Served, Service
from tutti.chassis.tasks import TaskContext
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish, put_file
from tutti.contracts.dedup.v1 import Dedup
from tutti.contracts.dedup.v1.dedup_pb2 import DESCRIPTOR
from tutti.corpus.manifest import Kind
from tutti.corpus.stages import DedupBody, FilterBody
from tutti.dedup import clusters
from tutti.dedup.rpc import DedupApi


def build(host: Host) -> Service:
    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        spec = dedup.spec
        chosen = FilterBody.read(
            staging.manifest(host.blobs, spec.manifest_key, spec.content_digest, Kind.FILTER, Kind.INGEST)
        )
        rejected = staging.rejected(host.blobs, chosen.decisions)
        with tempfile.TemporaryDirectory(prefix="tutti-dedup-") as scratch:
            staged = staging.shards(host.blobs, chosen.shards, Path(scratch))
            work = Path(scratch, "work")
            work.mkdir()
            found = context.pool(clusters.find, [path for path, _ in staged], rejected, spec.near, work)
            kept = put_file(host.blobs, "dedup/clusters", found.path)
        body = DedupBody(
            shards=chosen.shards,
            decisions=chosen.decisions,
            clusters=kept,
            documents=found.documents,
            duplicates=found.duplicates,
            near_duplicates=found.near,
            cluster_count=found.clusters,
            rejected=chosen.rejected,
            rejections=chosen.rejections,
        )
        result = publish(host.blobs, "dedup", body.manifest(producer=version.producer("dedup")), data_bytes=0)

        def fill(unit: Unit, dedup: Dedup) -> None:
            dedup.result.CopyFrom(result)
            dedup.documents, dedup.duplicates, dedup.clusters = body.documents, body.duplicates, body.cluster_count
            dedup.near_duplicates = body.near_duplicates

        return fill

    work = Work(host, "dedups", Dedup, run, clusters.LOGIC_VERSION)
    return Service(
        name="dedup",
        resources=[work.resource],
        serves=[Served(DESCRIPTOR.services_by_name["DedupService"], DedupApi(work))],
        tasks=[work.task()],
        export=work.export,
    )
