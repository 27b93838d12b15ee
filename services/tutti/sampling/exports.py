"""Exports as work: a checkpoint written for other programs."""

import tempfile
from pathlib import Path

from tutti.chassis import version
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext
from tutti.chassis.work.work import Outcome, Work, publish, put_content
from tutti.checkpoints.imported import ImportBody
from tutti.checkpoints.staged import open_staged
from tutti.contracts.sampling.v1 import Export, ExportedFile
from tutti.records.canonical import file_digest
from tutti.sampling import exporting
from tutti.sampling.dtypes import DTYPES
from tutti.sampling.results import File, export_manifest
from tutti.staging import fetching
from tutti.staging.checkpoints import Checkpoints


def work(host: Host) -> Work[Export]:
    checkpoints, producer = Checkpoints(host), version.producer("sampling")

    def run(context: TaskContext, export: Export) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="tutti-sampling-") as scratch:
            fetched = checkpoints.fetch(export.spec.checkpoint, Path(scratch, "checkpoint"))
            context.check()
            dtype = export.spec.dtype or DTYPES[0]
            came, to = _came(host, fetched.folder), Path(scratch, "exported")
            paths = context.pool(exporting.export, fetched.folder, fetched.tokenizer, to, dtype, came)
            files = []
            for path in paths:
                context.check()
                files.append(File(path.name, path.stat().st_size, file_digest(path)))
                put_content(host.blobs, files[-1].key, path, files[-1].bytes_digest)
        manifest = export_manifest(fetched.name, fetched.model_digest, files, producer=producer)
        result = publish(host.blobs, "sampling", manifest, data_bytes=sum(file.bytes for file in files))

        def fill(unit: Unit, export: Export) -> None:
            export.result.CopyFrom(result)
            export.files.extend(
                ExportedFile(name=file.name, bytes=file.bytes, bytes_digest=file.bytes_digest) for file in files
            )

        return fill

    return Work(host, "exports", Export, run, exporting.LOGIC_VERSION)


def _came(host: Host, folder: Path) -> dict[str, bytes]:
    """The files that came in with an imported checkpoint, by name; none of a training. Raises WorkFailed."""
    body = open_staged(folder).body
    if not isinstance(body, ImportBody):
        return {}
    return {each.name: fetching.small(host.blobs, each.key) for each in body.files if each.key}
