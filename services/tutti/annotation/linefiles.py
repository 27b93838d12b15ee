"""Files of JSON lines that manifests name: `{"blob", "bytes", "bytes_digest", "count"}`.

Promises: a file is named by the digest of its bytes, and checked by it when it is read.
"""

from collections.abc import Iterable
from typing import TypeVar

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobMissing
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work import put_named
from tutti.corpus.canonical import JsonValue, bytes_digest
from tutti.corpus.conversations import Record, from_lines, to_lines
from tutti.corpus.errors import CorpusError, InvalidManifest
from tutti.corpus.fields import Fields
from tutti.corpus.manifest import Manifest

FOLDER = "annotation/lines"
R = TypeVar("R", bound=Record)


def write(blobs: Blobs, records: Iterable[Record]) -> dict[str, JsonValue]:
    """Put the lines into the store; what a manifest says of them."""
    every = list(records)
    data = to_lines(every)
    key = put_named(blobs, FOLDER, data, ".jsonl")
    return {"blob": key, "bytes": len(data), "bytes_digest": bytes_digest(data), "count": len(every)}


def described(manifest: Manifest, field: str) -> tuple[str, int]:
    """The key and the bytes of a file. Raises InvalidManifest."""
    found = Fields(manifest.body, path="body", error=InvalidManifest).nested(field)
    return found.text("blob"), found.count("bytes")


def read(blobs: Blobs, manifest: Manifest, field: str, kind: type[R]) -> list[R]:
    """The records of a file. Raises WorkFailed where it is gone or damaged."""
    try:
        found = Fields(manifest.body, path="body", error=InvalidManifest).nested(field)
        key = found.text("blob")
        data = blobs.get(key)
        if bytes_digest(data) != found.digest("bytes_digest"):
            raise WorkFailed(f"the blob {key} is damaged; run the recipe again, its stage will be made anew")
        return list(from_lines(kind, data))
    except BlobMissing as error:
        raise WorkFailed(f"a blob is gone: {error}; run the recipe again, its stage will be made anew") from error
    except CorpusError as error:
        raise WorkFailed(f"the {field} of a manifest of kind {manifest.kind} cannot be read: {error}") from error
