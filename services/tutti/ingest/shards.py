"""A folder becomes document shards.

Promises: the result is a function of names and bytes below the folder; memory holds one shard, never the corpus.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tutti.corpus.canonical import bytes_digest, canonical_json, framed, hasher, named
from tutti.corpus.documents import Document
from tutti.corpus.documentshard import DocumentShardInfo, encode_document_shard
from tutti.ingest.extraction import EXTRACTION_VERSION, extract
from tutti.ingest.normalisation import NORMALISATION_VERSION
from tutti.ingest.readers import Limits, SourceFile, read_folder
from tutti.ingest.rejections import Rejection

LOGIC_VERSION = f"ingest-1.{EXTRACTION_VERSION}.{NORMALISATION_VERSION}"
MAX_FILE_BYTES = 50 << 20
SHARD_TEXT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read; `limit` files in path order, 0 for all."""

    root: Path
    max_file_bytes: int
    limit: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a folder, named."""

    input_digest: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Written:
    """Shards in the scratch folder, and what was left out."""

    shards: tuple[tuple[Path, DocumentShardInfo], ...]
    rejections: tuple[Rejection, ...]
    survey: Survey

    @property
    def documents(self) -> int:
        return sum(info.documents for _, info in self.shards)

    def rejected(self) -> list[tuple[str, int]]:
        return sorted(Counter(rejection.reason.value for rejection in self.rejections).items())

    def rejection_list(self) -> bytes:
        return canonical_json([asdict(rejection) for rejection in self.rejections])


def pages(reading: Reading) -> Iterator[SourceFile | Rejection]:
    """Raises InputRootError when there is no such folder."""
    found = read_folder(reading.root, Limits(max_file_bytes=reading.max_file_bytes))
    return itertools.islice(found, reading.limit) if reading.limit else found


class _Surveyor:
    def __init__(self) -> None:
        self.state, self.files, self.bytes = hasher("input folder"), 0, 0

    def see(self, page: SourceFile | Rejection) -> None:
        self.files += 1
        if isinstance(page, SourceFile):
            self.bytes += len(page.data)
            framed(self.state, (b"page", page.path.encode(), bytes_digest(page.data).encode()))
        else:
            framed(self.state, (b"left out", page.path.encode("utf-8", "backslashreplace"), page.reason.encode()))

    def survey(self) -> Survey:
        return Survey(named(self.state), self.files, self.bytes)


def survey(reading: Reading) -> Survey:
    """Name the content of a folder without extracting it."""
    surveyor = _Surveyor()
    for page in pages(reading):
        surveyor.see(page)
    return surveyor.survey()


def write_shards(reading: Reading, scratch: Path) -> Written:
    """Extract every page and write shards into `scratch`."""
    surveyor, rejections = _Surveyor(), list[Rejection]()
    shards, held, size = list[tuple[Path, DocumentShardInfo]](), list[Document](), 0

    def flush() -> None:
        data, info = encode_document_shard(held)
        path = scratch / f"{len(shards)}.parquet"
        path.write_bytes(data)
        shards.append((path, info))
        held.clear()

    for page in pages(reading):
        surveyor.see(page)
        made = extract(page) if isinstance(page, SourceFile) else page
        if isinstance(made, Rejection):
            rejections.append(made)
            continue
        held.append(made)
        size += len(made.text)
        if size >= SHARD_TEXT_BYTES:
            flush()
            size = 0
    if held:
        flush()
    return Written(tuple(shards), tuple(rejections), surveyor.survey())
