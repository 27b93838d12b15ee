"""A folder, or what a crawl kept, becomes document shards.

Promises: the result is a function of names and bytes, below a folder or as a site gave them; memory holds one shard,
the names of a folder's files and 20 bytes a document, never the corpus.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.documentshard import DocumentShardInfo, encode_document_shard
from tutti.ingest.encoding.mojibake import MOJIBAKE_VERSION
from tutti.ingest.encoding.normalisation import NORMALISATION_VERSION
from tutti.ingest.quality import measures
from tutti.ingest.quality.findings import Kind
from tutti.ingest.reading.batches import Batch, BatchResult, batches, chosen, made
from tutti.ingest.reading.containers import Page, Record, RecordOptions, patiently
from tutti.ingest.reading.extraction import EXTRACTION_VERSION
from tutti.ingest.reading.readers import Container, InputRootError, Limits, read_folder
from tutti.ingest.reading.rejections import Dropped, DroppedFiles, Reason, Rejection, RejectionFile, Rejections
from tutti.ingest.reading.tally import KEY_BYTES, Tally
from tutti.native.arrays import pa
from tutti.records.canonical import bytes_digest, file_digest, framed, hasher, named

LOGIC_VERSION = f"ingest-9.{EXTRACTION_VERSION}.{MOJIBAKE_VERSION}.{NORMALISATION_VERSION}.{measures.MEASURES_VERSION}"
MAX_FILE_BYTES = 50 << 20
TEXT_FIELD = "text"
SHARD_TEXT_BYTES = 64 << 20

STEADY = "files that stay as they are while they are read"

File = Page | Container | Rejection


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading parameters; `limit` files in path order, 0 for all; `text_field` names the texts in files of records.

    `mask`: what is replaced in texts before they are kept; `models` score them. `root` is a folder; where there is
    none, `archives` are those of a crawl, each page of which counts as a file; `earlier` archives hold the bodies of
    pages that had not changed since.
    """

    root: Path | None
    max_file_bytes: int
    limit: int
    text_field: str = TEXT_FIELD
    archives: tuple[Path, ...] = ()
    earlier: tuple[Path, ...] = ()
    mask: frozenset[Kind] = frozenset()
    models: measures.Models = ()
    roots: tuple[str, ...] = ()
    """Folders one of which `root` must be in when it is read; without any, everything is allowed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a folder, named."""

    input_digest: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A document shard in the scratch folder, and what was measured of its documents."""

    path: Path
    info: DocumentShardInfo
    measures: Path


@dataclass(frozen=True, slots=True)
class Written:
    """Shards in the scratch folder, and what was left out."""

    shards: tuple[ShardFile, ...]
    rejections: Rejections
    survey: Survey
    masked: tuple[tuple[str, int], ...] = ()
    """The number of replacements for each kind of personal data that was masked."""
    dropped: tuple[Dropped, ...] = ()
    """Files of records of which none has the field of texts."""

    @property
    def documents(self) -> int:
        return sum(shard.info.documents for shard in self.shards)


def files(reading: Reading) -> Iterator[File]:
    """Raises InputRootError when there is no such folder."""
    found: Iterator[File]
    if reading.root is not None:
        found = read_folder(reading.root, Limits(reading.max_file_bytes, reading.roots))
    else:
        found = itertools.chain.from_iterable(_visited(archive, reading) for archive in reading.archives)
    return itertools.islice(found, reading.limit) if reading.limit else found


def _visited(archive: Path, reading: Reading) -> Iterator[Page | Rejection]:
    """The answers that a crawl kept, by URL."""
    # Slow to import, and needed by few.
    from tutti.ingest.reading import warcrecords

    wanted = RecordOptions(reading.max_file_bytes, reading.text_field)
    for record in warcrecords.read_crawled(archive, wanted, {path.name: path for path in reading.earlier}):
        # Of some pages there was no answer; a part of a crawl may have none at all.
        if isinstance(record, Page) or (isinstance(record, Rejection) and record.reason is not Reason.NO_TEXT):
            yield record


class Surveyor:
    """Names files as they are read."""

    def __init__(self) -> None:
        self.state, self.files, self.bytes = hasher("input folder"), 0, 0

    def see(self, file: File) -> None:
        """Raises InputRootError when a file cannot be read to its end."""
        self.files += 1
        if isinstance(file, Rejection):
            framed(self.state, (b"left out", file.path.encode("utf-8", "backslashreplace"), file.reason.encode()))
            return
        if isinstance(file, Page):
            self.bytes += len(file.data)
            digest = bytes_digest(file.data)
        else:
            self.bytes += _state(file)[0]
            digest = _digest(file)
        framed(self.state, (b"page", file.path.encode(), digest.encode()))

    def survey(self) -> Survey:
        return Survey(named(self.state), self.files, self.bytes)


def _digest(file: Container) -> str:
    try:
        return file_digest(file.file)
    except OSError as error:
        raise InputRootError(f"{file.path}: {error.strerror or type(error).__name__}", STEADY) from error


def _state(file: Container) -> tuple[int, int, int]:
    """Size, time of the last change, and number of a file."""
    try:
        status = os.stat(file.file)
    except OSError as error:
        raise InputRootError(f"{file.path}: {error.strerror or type(error).__name__}", STEADY) from error
    return status.st_size, status.st_mtime_ns, status.st_ino


def survey(reading: Reading) -> Survey:
    """Name the content of a folder without extracting it. Raises InputRootError."""
    surveyor = Surveyor()
    for file in files(reading):
        surveyor.see(file)
    return surveyor.survey()


def records(file: File, reading: Reading) -> Iterator[Record]:
    """The records of a file: itself, or its records. Raises InputRootError when it changes while it is read."""
    if not isinstance(file, Container):
        yield file
        return
    before = _state(file)
    yield from patiently(
        file.read(file.file, file.path, RecordOptions(reading.max_file_bytes, reading.text_field)), file.path
    )
    if _state(file) != before:
        raise InputRootError(f"{file.path}: it was changed while it was read", STEADY)


def read_records(reading: Reading, surveyor: Surveyor) -> Iterator[tuple[str, Record]]:
    """Every record with the path of its file. Raises InputRootError."""
    for file in files(reading):
        surveyor.see(file)
        for record in records(file, reading):
            yield file.path, record


class _Shelf:
    """Documents until they are a shard, and the shards that they became; `personal` data in all of them, by kind."""

    def __init__(self, scratch: Path) -> None:
        self.shards: list[ShardFile] = []
        self.personal = Counter[Kind]()
        self._scratch = scratch
        self._seen = Tally()
        self.dropped = DroppedFiles()
        self._held: list[Document] = []
        self._rows: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, made: BatchResult, rejections: RejectionFile) -> None:
        """Take the documents that were not there before."""
        taken: list[int] = []
        row = -1
        for path, item in made.items:
            self.dropped.see(path, item if isinstance(item, Rejection) else None)
            if isinstance(item, Rejection):
                rejections.add(path, item)
                continue
            row += 1
            found = item.document
            if self._seen.add(bytes.fromhex(found.doc_id)[:KEY_BYTES]) > 1:
                detail = f"the same text from the same source came before, in or before {path}"
                rejections.add(path, Rejection(found.source, Reason.REPEATED, detail))
                continue
            self._held.append(found)
            taken.append(row)
            self._size += len(found.text)
            self.personal.update(item.personal)
            if self._size >= SHARD_TEXT_BYTES:
                self._rows.append(made.rows.take(pa.array(taken, pa.int64())))
                taken = []
                self.flush()
        self._rows.append(made.rows.take(pa.array(taken, pa.int64())))

    def flush(self) -> None:
        """Make a shard of what is held, if anything is."""
        if not self._held:
            return
        data, info = encode_document_shard(self._held)
        path, beside = (self._scratch / f"{name}-{len(self.shards)}.parquet" for name in ("documents", "measures"))
        path.write_bytes(data)
        measures.write(chosen(self._rows), beside)
        self.shards.append(ShardFile(path, info, beside))
        self._held, self._rows, self._size = [], [], 0
        pa.default_memory_pool().release_unused()


def write_shards(reading: Reading, scratch: Path, workers: int = 1, ray: str = "") -> Written:
    """Extract every page and write shards into `scratch`: by so many processes, or on the Ray cluster whose head is at
    `ray`, which makes no difference to them. Raises InputRootError, and what `onray.made` raises.
    """
    surveyor, shelf = Surveyor(), _Shelf(scratch)
    read = batches(read_records(reading, surveyor))
    done = _made_on_ray(read, reading, ray) if ray else made(read, reading.mask, workers, scratch, reading.models)
    with RejectionFile(scratch / "rejections.json") as rejections:
        for each in done:
            shelf.add(each, rejections)
    shelf.flush()
    masked = tuple(sorted((kind.value, shelf.personal[kind]) for kind in reading.mask))
    told, seen = rejections.told(), surveyor.survey()
    return Written(tuple(shelf.shards), told, seen, masked, tuple(shelf.dropped.files()))


def _made_on_ray(read: Iterator[Batch], reading: Reading, address: str) -> Iterator[BatchResult]:
    from tutti.ingest.reading import onray  # it asks this module for the version of the logic

    return onray.made(read, reading.mask, address, reading.models)
