"""Samples: the documents of a dataset one by one, as they were tokenized, for others to read.

Promises: the order is that of the document shards; a document is there once; memory is that of one shard, and about
100 bytes a document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.documents.documents import Document
from tutti.corpus.documents.documentshard import read_document_shard
from tutti.corpus.tokens.tokenshard import TokenShard

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)
_TOGETHER = 128


@dataclass(frozen=True, slots=True)
class Sample:
    """`document` is the id, 64 hex characters; `text` is what was tokenized, without what was cut out of the page."""

    split: str
    document: str
    source: str
    title: str
    media_type: str
    text: str


def held_out(shards: Iterable[Path]) -> set[bytes]:
    """The ids of the documents in local token shards, 32 bytes each. Raises CorpusError."""
    found: set[bytes] = set()
    for path in shards:
        shard = TokenShard(path)
        shard.verify()
        found.update(bytes.fromhex(shard.doc_id(index)) for index in range(shard.header.documents))
    return found


def samples(
    shards: Iterable[tuple[Path, str]], dropped: Collection[str], validation: Collection[bytes], cuts: Cuts | None
) -> Iterator[Sample]:
    """The documents of local shards (path, digest of its bytes) but those dropped. Raises CorpusError.

    A shard is not read any more when the next one is asked for.
    """
    seen: set[bytes] = set()
    for path, digest in shards:
        new: list[Document] = []
        for each in read_document_shard(path, expected_bytes_digest=digest):
            name = bytes.fromhex(each.doc_id)
            if each.doc_id not in dropped and name not in seen:
                seen.add(name)
                new.append(each)
        for begin in range(0, len(new), _TOGETHER):
            yield from _cut(new[begin : begin + _TOGETHER], validation, cuts)


def _cut(documents: Sequence[Document], validation: Collection[bytes], cuts: Cuts | None) -> Iterator[Sample]:
    texts = pa.array([each.text for each in documents], pa.large_string())
    if cuts is not None:
        texts = cuts.applied([each.doc_id for each in documents], texts)
    for each, text in zip(documents, texts.to_pylist(), strict=True):
        split = VALIDATION if bytes.fromhex(each.doc_id) in validation else TRAIN
        yield Sample(split, each.doc_id, each.source, each.title, each.media_type.value, text)
