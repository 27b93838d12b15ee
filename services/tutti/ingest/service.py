"""The ingest service: visits a site or reads a folder, writes document shards, and chooses among their documents.

Promises: every file or record becomes a document or a rejection with a reason; the same folder gives the same digest;
where the folder lies is told to nobody. A filter reads what was measured of documents, never their texts.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import kernels, staging, version
from tutti.chassis.canonical import CanonicalLine
from tutti.chassis.cluster import RAY, require_engine
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host, Served, Service
from tutti.chassis.tasks import CancellablePool, TaskContext, WorkFailed
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish, put_content, put_file
from tutti.contracts.ingest.v1 import Filter, Ingest, IngestSpec, MaskCount, ReasonCount, RuleCount
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR
from tutti.corpus.counts import statistics
from tutti.corpus.dataset import Rejected
from tutti.corpus.manifest import Kind
from tutti.corpus.stages import CrawlBody, DocumentShardEntry, FilterBody, IngestBody
from tutti.ingest import census, choosing, nesting, normalisation, shards, tags
from tutti.ingest.classifiers import ClassifierApi, key_of, named
from tutti.ingest.classifiers import work_of as classifier_work
from tutti.ingest.crawl.frontier import Frontier
from tutti.ingest.crawls import work_of as crawl_work
from tutti.ingest.extraction import EXTRACTION_VERSION
from tutti.ingest.measures import Models
from tutti.ingest.normalisation import NORMALISATION_VERSION
from tutti.ingest.onray import UnfitNode, lacking
from tutti.ingest.paths import Paths
from tutti.ingest.quality import features, languagemodel, pii
from tutti.ingest.quality.findings import Kind as Personal
from tutti.ingest.readers import InputRootError
from tutti.ingest.rejections import Reason
from tutti.ingest.retractions import Retractions
from tutti.ingest.rpc import IngestApi, choice_of
from tutti.ingest.settings import IngestSettings

EXPECTED = "HTML, Markdown or plain text pages, JSON lines, Parquet or WARC"


def reading(spec: IngestSpec) -> shards.Reading:
    """What a spec asks to read, but for the archives of a crawl. Raises InvalidField."""
    kinds = {kind.value: kind for kind in Personal}
    if unknown := [name for name in spec.mask if name not in kinds]:
        raise InvalidField("spec.mask", seen=unknown[0], expected=f"one of {', '.join(kinds)}")
    wanted = shards.Reading(
        None,
        spec.max_file_bytes or shards.MAX_FILE_BYTES,
        spec.limit,
        spec.text_field or shards.TEXT_FIELD,
        mask=frozenset(kinds[name] for name in spec.mask),
    )
    named(spec.classifiers)
    if spec.manifest_key and not spec.input_path:
        return wanted
    path = Path(spec.input_path)
    if not path.is_absolute():
        raise InvalidField(
            "spec.input_path", seen=spec.input_path or "nothing", expected="an absolute path of a folder"
        )
    if "\0" in spec.input_path:
        raise InvalidField("spec.input_path", seen="a NUL character", expected="a path without one")
    return replace(wanted, root=path)


NATIVES = tuple(
    each.native for each in (census, nesting, normalisation, pii, statistics, features, languagemodel, tags)
)


def build(host: Host) -> Service:
    # Where functions of the pool run in this very process, they start no others.
    settings = host.settings(IngestSettings)
    workers = settings.processes if isinstance(host.pool, CancellablePool) else 1
    paths, frontier = Paths(host.metadata), Frontier(host.metadata)
    crawls = crawl_work(host, frontier, paths)

    def run(context: TaskContext, ingest: Ingest) -> Outcome:
        spec = IngestSpec()
        spec.CopyFrom(ingest.spec)
        spec.input_path = host.units.run(lambda unit: paths.find(unit, ingest.name))
        if not spec.input_path and not spec.manifest_key:
            raise WorkFailed("where its pages lie is not recorded; run the recipe again")
        with tempfile.TemporaryDirectory(prefix="tutti-ingest-") as scratch:
            try:
                kept, earlier = archives(host.blobs, spec, Path(scratch))
                wanted = replace(
                    reading(spec),
                    archives=kept,
                    earlier=earlier,
                    models=models(host.blobs, spec, Path(scratch)),
                )
                ray = settings.ray if spec.engine == RAY else ""
                written = context.pool(shards.write_shards, wanted, Path(scratch), workers, ray)
            except (InputRootError, UnfitNode) as error:
                raise WorkFailed(str(error)) from error
            if ingest.spec.input_digest not in ("", written.survey.input_digest):
                raise WorkFailed(
                    f"in the folder lie other pages than those of this run: it is of {ingest.spec.input_digest}, there "
                    f"lie {written.survey.input_digest}; `tutti run` of its recipe, or with --data, reads what lies "
                    f"there now"
                )
            if not written.shards:
                raise WorkFailed(nothing_readable(written, "input.path" if spec.input_path else "input.crawl"))
            entries, measures = [], []
            for shard in written.shards:
                context.check()
                key = f"ingest/document-shards/{shard.info.bytes_digest.removeprefix('blake3:')}.parquet"
                put_content(host.blobs, key, shard.path, shard.info.bytes_digest)
                entries.append(DocumentShardEntry(key, shard.info))
                measures.append(put_file(host.blobs, "ingest/measures", shard.measures))
            rejections = put_file(host.blobs, "ingest/rejections", written.rejections.path)
        body = IngestBody(
            shards=tuple(entries),
            measures=tuple(measures),
            input_digest=written.survey.input_digest,
            files=written.survey.files,
            documents=written.documents,
            rejected=tuple(Rejected(reason, count) for reason, count in written.rejections.by_reason()),
            masked=written.masked,
            rejections=rejections,
            extraction_version=EXTRACTION_VERSION,
            normalisation_version=NORMALISATION_VERSION,
        )
        size = sum(entry.info.bytes for entry in entries)
        result = publish(host.blobs, "ingest", body.manifest(producer=version.producer("ingest")), data_bytes=size)

        def fill(unit: Unit, ingest: Ingest) -> None:
            ingest.result.CopyFrom(result)
            ingest.files, ingest.documents = body.files, body.documents
            ingest.rejected = written.rejections.counts.total()
            ingest.left_out.extend(ReasonCount(reason=each.reason, pages=each.count) for each in body.rejected)
            ingest.masked.extend(MaskCount(kind=kind, places=places) for kind, places in written.masked)

        return fill

    def run_filter(context: TaskContext, found: Filter) -> Outcome:
        manifest = staging.manifest(host.blobs, found.spec.manifest_key, found.spec.content_digest, Kind.INGEST)
        read = IngestBody.read(manifest)
        if not read.measures:
            raise WorkFailed("an earlier version read the documents and measured nothing; run the recipe again")
        with tempfile.TemporaryDirectory(prefix="tutti-filter-") as scratch:
            measures = [staging.named(host.blobs, key, Path(scratch)) for key in read.measures]
            gone = staging.retracted(host.blobs, found.spec.retracted_key)
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

    work = Work(host, "ingests", Ingest, run, shards.LOGIC_VERSION)
    filters = Work(host, "filters", Filter, run_filter, choosing.LOGIC_VERSION)

    retractions = Retractions(host, work)
    classifiers = classifier_work(host, paths)

    def export(unit: Unit) -> Iterator[CanonicalLine]:
        for crawl in crawls.resource.select(unit):
            yield CanonicalLine(crawl.name, {"site_digest": crawl.site_digest, "state": int(crawl.state)})
        yield from work.export(unit)
        yield from filters.export(unit)
        yield from retractions.export(unit)
        yield from classifiers.export(unit)

    def asked(spec: IngestSpec) -> shards.Reading:
        require_engine(spec.engine, lambda: lacking(settings))
        return reading(spec)

    api = IngestApi(host, crawls, frontier, work, filters, retractions, paths, asked, ClassifierApi(classifiers, paths))
    return Service(
        name="ingest",
        resources=[crawls.resource, work.resource, filters.resource, retractions.resource, classifiers.resource],
        tables=[paths.table, *frontier.tables],
        serves=[Served(DESCRIPTOR.services_by_name["IngestService"], api)],
        tasks=[crawls.task(), work.task(), filters.task(), classifiers.task()],
        export=export,
        checks=[kernels.check("texts are read and measured", "by Python, much slower", NATIVES)],
    )


def archives(blobs: Blobs, spec: IngestSpec, scratch: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """What a crawl kept, fetched in its order, and archives of earlier crawls that it names; nothing where a folder is
    read. Raises WorkFailed.
    """
    if spec.input_path:
        return (), ()
    body = CrawlBody.read(staging.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.CRAWL))
    kept, earlier = (
        tuple(staging.named(blobs, key, scratch) for key in dict.fromkeys(keys))
        for keys in (body.archives, body.earlier)
    )
    return kept, earlier


def models(blobs: Blobs, spec: IngestSpec, scratch: Path) -> Models:
    """The classifiers that score texts, fetched. Raises WorkFailed."""
    return tuple((name, staging.named(blobs, key_of(digest), scratch)) for name, digest in named(spec.classifiers))


def nothing_stays(made: choosing.Chosen) -> str:
    """Which rules left nothing."""
    reasons = ", ".join(f"{count} by {rule}" for rule, count in made.rules)
    return (
        f"all {made.rejected} documents were rejected ({reasons}); change quality.rules, quality.thresholds or "
        "quality.languages of the recipe"
    )


def nothing_readable(written: shards.Written, where: str) -> str:
    """Why a folder, or a crawl, gave no document, with the reasons that were found; `where` is the recipe's key."""
    rejections = written.rejections
    if rejections.first is None:
        return f"{where} holds no {'files' if not written.survey.files else 'documents'}; expected {EXPECTED}"
    reasons = ", ".join(f"{count} {reason}" for reason, count in rejections.by_reason())
    first = rejections.first
    larger = ", and larger ones where input.max_file_bytes says so" if rejections.counts[Reason.TOO_LARGE] else ""
    return (
        f"none of the {written.survey.files} files under {where} could be read as text ({reasons}); "
        f"the first is {first.path!r}: {first.detail}; expected {EXPECTED}{larger}"
    )
