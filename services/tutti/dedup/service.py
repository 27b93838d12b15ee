"""The dedup service: drops duplicates from a fixed set of document shards.

Promises: of documents with the same text, or nearly the same where that is asked for, the one with the smallest id
stays, whatever the order or number of shards.
"""

import tempfile
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import staging, version
from tutti.chassis.service import Finding, Host, Served, Service
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish, put_file
from tutti.contracts.dedup.v1 import Dedup, DedupSpec
from tutti.contracts.dedup.v1.dedup_pb2 import DESCRIPTOR
from tutti.corpus.manifest import Kind
from tutti.corpus.native import Kernel
from tutti.corpus.stages import DedupBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.dedup import clusters, onray
from tutti.dedup.clusters import Compared
from tutti.dedup.contamination import WORDS, Sought, TooManyTexts
from tutti.dedup.kernel import native
from tutti.dedup.reading import Unreadable
from tutti.dedup.rpc import RAY, DedupApi
from tutti.dedup.settings import DedupSettings
from tutti.dedup.shards import Texts


def staged(
    blobs: Blobs, entries: tuple[DocumentShardEntry, ...], folder: Path, without: frozenset[str] = frozenset()
) -> Texts:
    """Fetch the documents of shards, but for some. Raises WorkFailed."""
    folder.mkdir()
    return Texts(tuple(path for path, _ in staging.shards(blobs, entries, folder)), without)


def others(blobs: Blobs, spec: DedupSpec, scratch: Path) -> Compared:
    """Fetch what the documents are compared with. Raises WorkFailed."""
    earlier = []
    for number, each in enumerate(spec.against):
        kept = DedupBody.read(staging.manifest(blobs, each.manifest_key, each.content_digest, Kind.DEDUP))
        without = staging.rejected(blobs, kept.decisions) | staging.dropped(blobs, kept.clusters)
        earlier.append(staged(blobs, kept.shards, scratch / f"earlier-{number}", without))
    if not spec.HasField("evaluation"):
        return Compared(earlier=tuple(earlier))
    key, digest = spec.evaluation.manifest_key, spec.evaluation.content_digest
    read = IngestBody.read(staging.manifest(blobs, key, digest, Kind.INGEST))
    if read.rejected:
        reasons = ", ".join(f"{each.count} {each.reason}" for each in read.rejected)
        raise WorkFailed(
            f"not all of dedup.decontaminate.path could be read as text ({reasons}), and what is not read is not kept "
            "out; mend it, or take it out of the folder"
        )
    sought = Sought(spec.evaluation_words or WORDS, spec.evaluation_share)
    return Compared(staged(blobs, read.shards, scratch / "evaluation"), sought, tuple(earlier))


def nothing_stays(found: clusters.Found) -> str:
    """Why every document was left out."""
    return (
        f"no document stays: {found.contaminated} are contaminated by evaluation texts, {found.earlier} are in an "
        "earlier dataset; change dedup.decontaminate or dedup.against of the recipe"
    )


def finding(found: Kernel) -> Finding:
    """What the doctor says of a kernel; doing without is slow, not wrong."""
    if found.library is not None:
        return Finding("kernel", True, "near-duplicates are found by the compiled kernel")
    return Finding("kernel", True, f"near-duplicates are found by numpy, some fifteen times slower: {found.why_not}")


def build(host: Host) -> Service:
    settings = host.settings(DedupSettings)

    def find(context: TaskContext, spec: DedupSpec, chosen: FilterBody, scratch: Path) -> clusters.Found:
        rejected = staging.rejected(host.blobs, chosen.decisions)
        work = scratch / "work"
        work.mkdir()
        try:
            if spec.engine == RAY:
                return context.pool(onray.find, settings, chosen.shards, rejected, spec.near, work)
            own = staged(host.blobs, chosen.shards, scratch / "own", rejected)
            return context.pool(clusters.find, own, spec.near, work, others(host.blobs, spec, scratch))
        except (TooManyTexts, Unreadable) as error:
            raise WorkFailed(str(error)) from error

    def run(context: TaskContext, dedup: Dedup) -> Outcome:
        spec = dedup.spec
        chosen = FilterBody.read(
            staging.manifest(host.blobs, spec.manifest_key, spec.content_digest, Kind.FILTER, Kind.INGEST)
        )
        with tempfile.TemporaryDirectory(prefix="tutti-dedup-") as scratch:
            found = find(context, spec, chosen, Path(scratch))
            if not found.documents:
                raise WorkFailed(nothing_stays(found))
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
            contaminated=found.contaminated,
            earlier=found.earlier,
            compared=tuple(each.content_digest for each in [spec.evaluation, *spec.against] if each.content_digest),
        )
        result = publish(host.blobs, "dedup", body.manifest(producer=version.producer("dedup")), data_bytes=0)

        def fill(unit: Unit, dedup: Dedup) -> None:
            dedup.result.CopyFrom(result)
            dedup.documents, dedup.duplicates, dedup.clusters = body.documents, body.duplicates, body.cluster_count
            dedup.near_duplicates = body.near_duplicates
            dedup.contaminated, dedup.earlier = body.contaminated, body.earlier

        return fill

    work = Work(host, "dedups", Dedup, run, clusters.LOGIC_VERSION)
    return Service(
        name="dedup",
        resources=[work.resource],
        serves=[Served(DESCRIPTOR.services_by_name["DedupService"], DedupApi(work, settings))],
        tasks=[work.task()],
        export=work.export,
        checks=[lambda: finding(native())],
    )
