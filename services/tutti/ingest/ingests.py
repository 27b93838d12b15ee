"""Reading as work: what a folder holds, or a crawl kept, becomes document shards, measures and rejections.

Promises: every file or record becomes a document or a rejection with a reason; the same pages give the same digest.
"""

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tutti.backbone import Blobs
from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import CancellablePool, TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, publish, put_content, put_file
from tutti.contracts.ingest.v1 import DroppedFile, Ingest, IngestSpec, MaskCount, ReasonCount
from tutti.corpus.documents.stages import CrawlBody, DocumentShardEntry, IngestBody
from tutti.corpus.quality.classifier import key_of
from tutti.corpus.tokens.dataset import Rejected
from tutti.ingest.classifiers import named
from tutti.ingest.encoding.normalisation import NORMALISATION_VERSION
from tutti.ingest.paths import Paths, folder
from tutti.ingest.quality.findings import Kind as Personal
from tutti.ingest.quality.measures import Models
from tutti.ingest.reading import shards
from tutti.ingest.reading.extraction import EXTRACTION_VERSION
from tutti.ingest.reading.onray import UnfitNode
from tutti.ingest.reading.readers import InputRootError
from tutti.ingest.reading.rejections import Dropped, Reason
from tutti.ingest.settings import IngestSettings
from tutti.platform.cluster import RAY
from tutti.records.manifest import Kind
from tutti.staging import fetching

MOST_DETAIL, NAMED_FILES = 400, 100

EXPECTED = "HTML, Markdown or plain text pages, JSON lines, Parquet or WARC"


def reading_of(spec: IngestSpec, roots: tuple[str, ...] = ()) -> shards.Reading:
    """The reading parameters of a spec, except for the archives of a crawl. Raises InvalidField."""
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
    return replace(wanted, root=folder(spec.input_path), roots=roots)


def work_of(host: Host, paths: Paths, settings: IngestSettings) -> Work[Ingest]:
    """The work of reading."""
    # Where functions of the pool run in this very process, they start no others.
    workers = settings.processes if isinstance(host.pool, CancellablePool) else 1

    def read(context: TaskContext, spec: IngestSpec, scratch: Path) -> shards.Written:
        try:
            own, earlier = archives(host.blobs, spec, scratch)
            scored = models(host.blobs, spec.classifiers, scratch)
            wanted = replace(reading_of(spec, paths.roots), archives=own, earlier=earlier, models=scored)
            ray = settings.ray if spec.engine == RAY else ""
            written = context.pool(shards.write_shards, wanted, scratch, workers, ray)
        except (InputRootError, UnfitNode) as error:
            raise WorkFailed(str(error)) from error
        if spec.input_digest not in ("", written.survey.input_digest):
            raise WorkFailed(
                f"in the folder lie other pages than those of this run: it is of {spec.input_digest}, there lie "
                f"{written.survey.input_digest}; `tutti run` of its recipe, or with --data, reads what lies there now"
            )
        if not written.shards:
            raise WorkFailed(nothing_readable(written, "input.path" if spec.input_path else "input.crawl"))
        return written

    def run(context: TaskContext, ingest: Ingest) -> Outcome:
        spec = IngestSpec()
        spec.CopyFrom(ingest.spec)
        spec.input_path = host.units.run(lambda unit: paths.find(unit, ingest.name))
        if not spec.input_path and not spec.manifest_key:
            raise WorkFailed("where its pages lie is not recorded; run the recipe again")
        with tempfile.TemporaryDirectory(prefix="tutti-ingest-") as scratch:
            written = read(context, spec, Path(scratch))
            body = kept(context, host.blobs, written)
        size = sum(entry.info.bytes for entry in body.shards)
        result = publish(host.blobs, "ingest", body.manifest(producer=version.producer("ingest")), data_bytes=size)

        def fill(unit: Unit, ingest: Ingest) -> None:
            ingest.result.CopyFrom(result)
            ingest.files, ingest.documents = body.files, body.documents
            ingest.rejected = written.rejections.counts.total()
            ingest.left_out.extend(ReasonCount(reason=each.reason, pages=each.count) for each in body.rejected)
            ingest.dropped.extend(map(told, written.dropped[:NAMED_FILES]))
            ingest.masked.extend(MaskCount(kind=kind, places=places) for kind, places in written.masked)

        return fill

    return Work(host, "ingests", Ingest, run, shards.LOGIC_VERSION)


def told(dropped: Dropped) -> DroppedFile:
    """A file of which no record has a text, as it is shown."""
    return DroppedFile(path=dropped.path, records=dropped.records, detail=dropped.first.detail[:MOST_DETAIL])


def kept(context: TaskContext, blobs: Blobs, written: shards.Written) -> IngestBody:
    """Store the written shards, and return the body of the manifest."""
    entries, measures = [], []
    for shard in written.shards:
        context.check()
        key = f"ingest/document-shards/{shard.info.bytes_digest.removeprefix('blake3:')}.parquet"
        put_content(blobs, key, shard.path, shard.info.bytes_digest)
        entries.append(DocumentShardEntry(key, shard.info))
        measures.append(put_file(blobs, "ingest/measures", shard.measures))
    return IngestBody(
        shards=tuple(entries),
        measures=tuple(measures),
        input_digest=written.survey.input_digest,
        files=written.survey.files,
        documents=written.documents,
        rejected=tuple(Rejected(reason, count) for reason, count in written.rejections.by_reason()),
        masked=written.masked,
        rejections=put_file(blobs, "ingest/rejections", written.rejections.path),
        extraction_version=EXTRACTION_VERSION,
        normalisation_version=NORMALISATION_VERSION,
    )


def archives(blobs: Blobs, spec: IngestSpec, scratch: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The archives of a crawl, fetched in its order, and archives of earlier crawls that it names; empty if a folder is
    read. Raises WorkFailed.
    """
    if spec.input_path:
        return (), ()
    body = CrawlBody.read(fetching.manifest(blobs, spec.manifest_key, spec.content_digest, Kind.CRAWL))
    kept, earlier = (
        tuple(fetching.named(blobs, key, scratch) for key in dict.fromkeys(keys))
        for keys in (body.archives, body.earlier)
    )
    return kept, earlier


def models(blobs: Blobs, classifiers: Iterable[str], scratch: Path) -> Models:
    """The classifiers (NAME@DIGEST) that score texts, fetched. Raises WorkFailed."""
    return tuple((name, fetching.named(blobs, key_of(digest), scratch)) for name, digest in named(classifiers))


def nothing_readable(written: shards.Written, where: str) -> str:
    """A message that says why a folder, or a crawl, gave no document, with the reasons that were found; `where` is the
    recipe's key.
    """
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
