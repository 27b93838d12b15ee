"""Blobs of JSON lines that manifests name, a record each.

Promises: a blob is named by the digest of its bytes, and checked by it when it is read.
"""

from collections.abc import Iterable
from typing import TypeVar

from tutti.backbone import Blobs
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import put_named
from tutti.corpus.conversations.conversations import Record, from_lines, to_lines
from tutti.corpus.conversations.conversationset import Lines
from tutti.records.canonical import bytes_digest
from tutti.records.errors import CorpusError
from tutti.records.manifest import Manifest
from tutti.staging import fetching

R = TypeVar("R", bound=Record)


def write(blobs: Blobs, folder: str, records: Iterable[Record]) -> Lines:
    """Put the records into the store, under a prefix of the service's own."""
    every = list(records)
    data = to_lines(every)
    return Lines(put_named(blobs, folder, data, ".jsonl"), bytes_digest(data), len(data), len(every))


def read(blobs: Blobs, manifest: Manifest, kind: type[R], field: str = "lines") -> list[R]:
    """Return the records of the blob that a field of the manifest names. Raises WorkFailed where they do not hold."""
    try:
        return list(from_lines(kind, fetching.small(blobs, Lines.of(manifest, field).blob)))
    except CorpusError as error:
        raise WorkFailed(f"the {field} of a manifest of kind {manifest.kind} cannot be read: {error}") from error
