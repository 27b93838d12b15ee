"""Document shards: documents in one Parquet file, sorted by doc_id.

`content_digest` names the documents whatever wrote them; `bytes_digest` finds a flipped or missing byte.  A shard that
does not verify is refused whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from tutti.corpus.documents.documents import Document, Extraction, MediaType
from tutti.corpus.rows import AS_PARQUET
from tutti.native.arrays import pa, pq
from tutti.records.canonical import bytes_digest, canonical_json, framed, hasher, named
from tutti.records.errors import CorpusError, CorruptShard, UnsupportedFormat
from tutti.records.fields import Digest

FORMAT_MAJOR = 1
_GROUP_ROWS, _GROUP_CHARACTERS = 4096, 8 << 20
_KEY_VERSION = b"tutti.document_shard.version"
_KEY_CONTENT = b"tutti.document_shard.content_digest"


@cache
def schema() -> pa.Schema:
    """Return the columns of a document shard."""
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("text", pa.large_string(), nullable=False),
            pa.field("text_digest", pa.string(), nullable=False),
            pa.field("title", pa.string(), nullable=False),
            pa.field("media_type", pa.string(), nullable=False),
            pa.field("charset", pa.string(), nullable=False),
            pa.field("replaced_characters", pa.int64(), nullable=False),
            pa.field("extraction", pa.string(), nullable=False),
            pa.field("normalisation_version", pa.int32(), nullable=False),
        ]
    )


@dataclass(frozen=True, slots=True)
class DocumentShardInfo:
    """The entry of a document shard in a manifest; `text_bytes` counts UTF-8."""

    content_digest: Digest
    bytes_digest: Digest
    bytes: int
    documents: int
    text_bytes: int
    first_doc_id: str
    last_doc_id: str


def rows_digest(documents: Sequence[Document]) -> str:
    """The content digest of documents that are already sorted by doc_id."""
    return named(framed(hasher("document shard"), (canonical_json(document.canonical()) for document in documents)))


def encode_document_shard(documents: Iterable[Document]) -> tuple[bytes, DocumentShardInfo]:
    """The file of a shard and what its manifest says of it; raises CorpusError when empty or a doc_id comes twice."""
    rows = sorted(documents, key=lambda document: document.doc_id)
    if not rows:
        raise CorpusError("a document shard needs at least one document")
    for before, after in pairwise(rows):
        if before.doc_id == after.doc_id:
            raise CorpusError(f"document {after.doc_id} ({after.source}) is there twice; a shard holds each once")
    content = rows_digest(rows)
    metadata = {_KEY_VERSION: str(FORMAT_MAJOR).encode(), _KEY_CONTENT: content.encode()}
    described, sink = schema().with_metadata(metadata), io.BytesIO()
    with pq.ParquetWriter(sink, described, **AS_PARQUET) as file:  # type: ignore[no-untyped-call]
        for group in _groups(rows):
            file.write_batch(_batch(group, described))
    data = sink.getvalue()
    info = DocumentShardInfo(
        content_digest=content,
        bytes_digest=bytes_digest(data),
        bytes=len(data),
        documents=len(rows),
        text_bytes=sum(len(row.text.encode()) for row in rows),
        first_doc_id=rows[0].doc_id,
        last_doc_id=rows[-1].doc_id,
    )
    return data, info


def decode_document_shard(data: bytes, *, expected_bytes_digest: str, name: str = "document shard") -> list[Document]:
    """The documents, by doc_id; raises CorruptShard on any flip or truncation, UnsupportedFormat on a newer major."""
    seen = bytes_digest(data)
    if seen != expected_bytes_digest:
        raise CorruptShard(
            shard=name, section="file", seen=f"{seen} over {len(data)} bytes", expected=expected_bytes_digest
        )
    try:
        table = pq.read_table(io.BytesIO(data))  # type: ignore[no-untyped-call]
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFormat(f"{name}: not a Parquet file: {error}; expected a document shard") from error
    metadata: dict[bytes, bytes] = table.schema.metadata or {}
    version = metadata.get(_KEY_VERSION, b"").decode(errors="replace")
    if version != str(FORMAT_MAJOR):
        raise UnsupportedFormat(
            f"{name}: document shard format {version or 'unknown'}, this version reads {FORMAT_MAJOR}; "
            "use a newer tutti"
        )
    documents = [_document(row) for row in table.to_pylist()]
    seen = rows_digest(documents)
    expected = metadata.get(_KEY_CONTENT, b"").decode(errors="replace")
    if seen != expected:
        raise CorruptShard(shard=name, section="rows", seen=seen, expected=expected)
    for document in documents:
        document.require_true_name()
    return documents


def read_document_shard(source: Path | BinaryIO, *, expected_bytes_digest: str) -> list[Document]:
    """`decode_document_shard` of a file or a file-like object."""
    if isinstance(source, Path):
        return decode_document_shard(source.read_bytes(), expected_bytes_digest=expected_bytes_digest, name=source.name)
    return decode_document_shard(source.read(), expected_bytes_digest=expected_bytes_digest)


def _groups(rows: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """A row group each: no more than that is in memory twice, when it is written or one of its documents is read."""
    begin = size = 0
    for end, row in enumerate(rows, 1):
        size += len(row.text)
        if end - begin == _GROUP_ROWS or size >= _GROUP_CHARACTERS:
            yield rows[begin:end]
            begin, size = end, 0
    if begin < len(rows):
        yield rows[begin:]


def _batch(rows: Sequence[Document], schema: pa.Schema) -> pa.RecordBatch:
    # Members of an enumeration are strings to Arrow, too.
    columns = [list(map(attrgetter(field.name), rows)) for field in schema]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema
    )


def _document(row: dict[str, str | int]) -> Document:
    return Document(
        doc_id=str(row["doc_id"]),
        source=str(row["source"]),
        text=str(row["text"]),
        text_digest=str(row["text_digest"]),
        title=str(row["title"]),
        media_type=MediaType(str(row["media_type"])),
        charset=str(row["charset"]),
        replaced_characters=int(row["replaced_characters"]),
        extraction=Extraction(str(row["extraction"])),
        normalisation_version=int(row["normalisation_version"]),
    )
