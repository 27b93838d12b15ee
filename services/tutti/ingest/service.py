"""The ingest service: reads a folder of pages and writes document shards.

Promises: every file becomes a document or a rejection with a reason; the same folder gives the same digest; where the
folder lies is told to nobody.
"""

import tempfile
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.errors import InvalidField
from tutti.chassis.service import Host, Served, Service
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.unit import Unit
from tutti.chassis.work import Outcome, Work, publish, put_content, put_named
from tutti.contracts.ingest.v1 import Ingest, IngestSpec
from tutti.contracts.ingest.v1.ingest_pb2 import DESCRIPTOR
from tutti.corpus.dataset import Rejected
from tutti.corpus.stages import DocumentShardEntry, IngestBody
from tutti.ingest import shards
from tutti.ingest.extraction import EXTRACTION_VERSION
from tutti.ingest.normalisation import NORMALISATION_VERSION
from tutti.ingest.paths import Paths
from tutti.ingest.readers import InputRootError
from tutti.ingest.rpc import IngestApi

EXPECTED = "HTML, Markdown or plain text pages, JSON lines, Parquet or WARC"


def reading(spec: IngestSpec) -> shards.Reading:
    """What a spec asks to read. Raises InvalidField."""
    path = Path(spec.input_path)
    if not path.is_absolute():
        raise InvalidField(
            "spec.input_path", seen=spec.input_path or "nothing", expected="an absolute path of a folder"
        )
    if "\0" in spec.input_path:
        raise InvalidField("spec.input_path", seen="a NUL character", expected="a path without one")
    return shards.Reading(
        path, spec.max_file_bytes or shards.MAX_FILE_BYTES, spec.limit, spec.text_field or shards.TEXT_FIELD
    )


def build(host: Host) -> Service:
    paths = Paths(host.metadata)

    def run(context: TaskContext, ingest: Ingest) -> Outcome:
        spec = IngestSpec()
        spec.CopyFrom(ingest.spec)
        spec.input_path = host.units.run(lambda unit: paths.find(unit, ingest.name))
        if not spec.input_path:
            raise WorkFailed("where its pages lie is not recorded; run the recipe again")
        with tempfile.TemporaryDirectory(prefix="tutti-ingest-") as scratch:
            try:
                written = context.pool(shards.write_shards, reading(spec), Path(scratch))
            except InputRootError as error:
                raise WorkFailed(str(error)) from error
            if ingest.spec.input_digest not in ("", written.survey.input_digest):
                raise WorkFailed(
                    f"the pages of input.path changed while the run was under way: they were "
                    f"{ingest.spec.input_digest}, they are {written.survey.input_digest}; run the recipe again"
                )
            if not written.shards:
                raise WorkFailed(nothing_readable(written))
            entries = []
            for path, info in written.shards:
                context.check()
                key = f"ingest/document-shards/{info.bytes_digest.removeprefix('blake3:')}.parquet"
                put_content(host.blobs, key, path, info.bytes_digest)
                entries.append(DocumentShardEntry(key, info))
        body = IngestBody(
            shards=tuple(entries),
            input_digest=written.survey.input_digest,
            files=written.survey.files,
            documents=written.documents,
            rejected=tuple(Rejected(reason, count) for reason, count in written.rejections.by_reason()),
            rejections=put_named(host.blobs, "ingest/rejections", written.rejections.encode(), ".json"),
            extraction_version=EXTRACTION_VERSION,
            normalisation_version=NORMALISATION_VERSION,
        )
        size = sum(entry.info.bytes for entry in entries)
        result = publish(host.blobs, "ingest", body.manifest(producer=version.producer("ingest")), data_bytes=size)

        def fill(unit: Unit, ingest: Ingest) -> None:
            ingest.result.CopyFrom(result)
            ingest.files, ingest.documents = body.files, body.documents
            ingest.rejected = written.rejections.counts.total()

        return fill

    work = Work(host, "ingests", Ingest, run, shards.LOGIC_VERSION)
    api = IngestApi(host, work, paths, reading)
    return Service(
        name="ingest",
        resources=[work.resource],
        tables=[paths.table],
        serves=[Served(DESCRIPTOR.services_by_name["IngestService"], api)],
        tasks=[work.task()],
        export=work.export,
    )


def nothing_readable(written: shards.Written) -> str:
    """Why a folder gave no document, with the reasons that were found."""
    rejections = written.rejections
    if not rejections.named:
        return f"input.path holds no {'files' if not written.survey.files else 'documents'}; expected {EXPECTED}"
    reasons = ", ".join(f"{count} {reason}" for reason, count in rejections.by_reason())
    first = rejections.named[0]
    return (
        f"none of the {written.survey.files} files under input.path could be read as text ({reasons}); "
        f"the first is {first.path!r}: {first.detail}; expected {EXPECTED}"
    )
