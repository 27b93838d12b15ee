"""Token shards: a memory-mapped run of tokens with the documents that it came from.

A shard is one *stream*; sample i is the tokens [i * context, i * context + context] of it, both ends included, so
neighbours share one token, every token but the stream's first is a target exactly once, and nothing is wasted but the
padding behind the last document.  Opening reads the header alone; `verify` finds any flipped byte and names where.

Layout, little-endian: a header of 512 bytes that ends with its own digest, then the sections `tokens` (u16 or u32),
`starts` (u64: where each document begins in the stream), `doc_ids` (32 bytes each, in stream order) and `order`
(u32: doc_ids sorted), each aligned to 64 bytes, zeros between.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from tutti.corpus.canonical import content_digest, named
from tutti.corpus.errors import CorpusError, UnknownSample
from tutti.corpus.sections import HEADER_BYTES, Extent, Format, Sections, aligned

_READ_BYTES = 1 << 20


class Section(StrEnum):
    """The parts of the file, in order."""

    TOKENS = "tokens"
    STARTS = "starts"
    DOC_IDS = "doc_ids"
    ORDER = "order"


FORMAT = Format("a token shard", b"TUTTITOK", 1, 0, struct.Struct("<8sHHHHIIIIQQQQ"), Section)


@dataclass(frozen=True, slots=True)
class TokenRun:
    """What goes into a shard.

    `tokens`: sequences * context + 1 token ids, padded behind `tokens_used`; `starts[k]`: where document `doc_ids[k]`
    begins, the first 0 (a document that began in an earlier shard begins here at 0); `first_sample`: the number of
    this shard's first sample in its split.
    """

    tokens: npt.NDArray[np.integer]
    tokens_used: int
    starts: npt.NDArray[np.integer]
    doc_ids: Sequence[str]
    context: int
    vocabulary: int
    eos: int
    first_sample: int


@dataclass(frozen=True, slots=True)
class ShardShape:
    """What is known of a shard before its tokens."""

    context: int
    vocabulary: int
    eos: int
    first_sample: int


@dataclass(frozen=True, slots=True)
class TokenShardInfo:
    """What a manifest says of a token shard."""

    content_digest: str
    bytes_digest: str
    bytes: int
    sequences: int
    tokens: int
    first_sample: int
    documents: int
    first_doc_id: str
    last_doc_id: str


@dataclass(frozen=True, slots=True)
class Header:
    """The fixed part of a shard."""

    token_bytes: int
    context: int
    vocabulary: int
    eos: int
    sequences: int
    tokens_used: int
    documents: int
    first_sample: int
    sections: tuple[Extent, ...]

    def content_digest(self) -> str:
        """The shard's name: it follows from the header, which holds the digest of every section."""
        return content_digest(
            {
                "context": self.context,
                "eos": self.eos,
                "first_sample": self.first_sample,
                "sections": [extent.digest.hex() for extent in self.sections],
                "sequences": self.sequences,
                "tokens_used": self.tokens_used,
                "vocabulary": self.vocabulary,
            },
            kind="token shard",
        )

    def encode(self) -> bytes:
        fields = (
            self.token_bytes, 0, self.context, self.vocabulary, self.eos, 0, self.sequences, self.tokens_used,
            self.documents, self.first_sample,
        )  # fmt: skip
        return FORMAT.encode(fields, self.sections)


def token_dtype(vocabulary: int) -> np.dtype[np.generic]:
    """u16 where every id fits, else u32."""
    return np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")


def encode_token_shard(run: TokenRun) -> tuple[bytes, TokenShardInfo]:
    """The file of a shard and what its manifest says of it; raises CorpusError for an impossible run."""
    file = io.BytesIO()
    shape = ShardShape(run.context, run.vocabulary, run.eos, run.first_sample)
    writer = TokenShardWriter(file, shape)
    writer.append(run.tokens)
    ids = np.frombuffer(b"".join(bytes.fromhex(doc_id) for doc_id in run.doc_ids), "S32")
    info = writer.finish(tokens_used=run.tokens_used, starts=run.starts, doc_ids=ids)
    return file.getvalue(), info


class TokenShardWriter:
    """Writes a shard from its tokens, in their order and a few at a time, to a file that is empty and can be read."""

    def __init__(self, file: BinaryIO, shape: ShardShape) -> None:
        self._file, self._shape = file, shape
        self._dtype = token_dtype(shape.vocabulary)
        self._digest, self._tokens, self._offset = blake3(), 0, HEADER_BYTES
        self._extents: list[Extent] = []
        file.write(bytes(HEADER_BYTES))

    def append(self, tokens: npt.NDArray[np.integer]) -> None:
        """Add tokens; raises CorpusError for one that the vocabulary lacks."""
        if len(tokens) and (int(tokens.max()) >= self._shape.vocabulary or int(tokens.min()) < 0):
            raise CorpusError(f"a token lies outside the vocabulary of {self._shape.vocabulary}")
        data = np.ascontiguousarray(tokens, self._dtype).view(np.uint8).data
        self._digest.update(data)
        self._file.write(data)
        self._tokens += len(tokens)

    def finish(
        self, *, tokens_used: int, starts: npt.NDArray[np.integer], doc_ids: npt.NDArray[np.bytes_]
    ) -> TokenShardInfo:
        """Write the rest, `starts` and `doc_ids` (S32) as in TokenRun; raises CorpusError for an impossible run."""
        shape = self._shape
        _check(shape, self._tokens, tokens_used, starts, doc_ids)
        sequences = (self._tokens - 1) // shape.context
        self._extents.append(Extent(HEADER_BYTES, self._tokens * self._dtype.itemsize, self._digest.digest()))
        order = np.argsort(doc_ids, kind="stable")
        for part in (starts.astype("<u8"), doc_ids, order.astype("<u4")):
            self._add(part.tobytes())
        header = Header(
            token_bytes=self._dtype.itemsize,
            context=shape.context,
            vocabulary=shape.vocabulary,
            eos=shape.eos,
            sequences=sequences,
            tokens_used=tokens_used,
            documents=len(doc_ids),
            first_sample=shape.first_sample,
            sections=tuple(self._extents),
        )
        self._file.seek(0)
        self._file.write(header.encode())
        first, last = (doc_ids[order[[place]]].tobytes().hex() for place in (0, -1))
        return TokenShardInfo(
            content_digest=header.content_digest(),
            bytes_digest=self._bytes_digest(),
            bytes=header.sections[-1].end,
            sequences=sequences,
            tokens=tokens_used,
            first_sample=shape.first_sample,
            documents=len(doc_ids),
            first_doc_id=first,
            last_doc_id=last,
        )

    def _add(self, part: bytes) -> None:
        end = self._extents[-1].end
        offset = aligned(end)
        self._file.write(bytes(offset - end) + part)
        self._extents.append(Extent(offset, len(part), blake3(part).digest()))

    def _bytes_digest(self) -> str:
        """Of the whole file, which begins with what was written last."""
        self._file.seek(0)
        digest = blake3()
        while data := self._file.read(_READ_BYTES):
            digest.update(data)
        return named(digest)


def _check(
    shape: ShardShape, tokens: int, used: int, starts: npt.NDArray[np.integer], doc_ids: npt.NDArray[np.bytes_]
) -> None:
    if shape.context < 1 or tokens <= shape.context or (tokens - 1) % shape.context:
        raise CorpusError(
            f"{tokens} tokens are no whole number of sequences of {shape.context}: "
            "expected sequences * context + 1; pad the last sequence"
        )
    if not 1 < used <= tokens:
        raise CorpusError(f"tokens_used is {used}, expected 2 to {tokens}")
    if len(starts) != len(doc_ids) or len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) <= 0):
        raise CorpusError("expected one start for each document, the first 0, each greater than the one before")
    if int(starts[-1]) >= used:
        raise CorpusError(f"a document begins at {starts[-1]}, behind the last token {used - 1}")
    if len(np.unique(doc_ids)) != len(doc_ids):
        raise CorpusError("a document is there twice; a shard holds each document in one piece")


class TokenShard:
    """An open shard: arrays over the mapped file, nothing copied."""

    def __init__(self, path: Path) -> None:
        """Map `path`; raises UnsupportedFormat or CorruptShard when the header does not hold."""
        self._file = Sections(path, FORMAT)
        self.name, self._map = self._file.name, self._file.map
        self.header = _header(self._file)
        dtype = np.dtype("<u2") if self.header.token_bytes == 2 else np.dtype("<u4")
        self.tokens = np.frombuffer(self._map, dtype, self._length(0, dtype.itemsize), self._offset(0))
        self.starts = np.frombuffer(self._map, "<u8", self.header.documents, self._offset(1)).view("<i8")
        self.doc_ids = np.frombuffer(self._map, "S32", self.header.documents, self._offset(2))
        self.order = np.frombuffer(self._map, "<u4", self.header.documents, self._offset(3))
        stride = self.header.context * dtype.itemsize
        self.rows: npt.NDArray[np.unsignedinteger] = np.lib.stride_tricks.as_strided(
            self.tokens, (self.sequences, self.header.context + 1), (stride, dtype.itemsize), writeable=False
        )

    def _offset(self, section: int) -> int:
        return self.header.sections[section].offset

    def _length(self, section: int, item: int) -> int:
        return self.header.sections[section].length // item

    @property
    def sequences(self) -> int:
        return self.header.sequences

    @property
    def first_sample(self) -> int:
        return self.header.first_sample

    def verify(self) -> None:
        """Read every byte; raises CorruptShard naming the section, or the gap between two, that does not hold."""
        self._file.verify()

    def doc_id(self, index: int) -> str:
        """The id of the `index`-th document in stream order."""
        start = self._offset(2) + 32 * index
        return self._map[start : start + 32].hex()

    def documents_of(self, sample: int) -> list[str]:
        """Ids of the documents that have a token in `sample` (numbered in the split), in stream order."""
        row = sample - self.first_sample
        if not 0 <= row < self.sequences:
            raise UnknownSample(f"{self.name} holds samples {self.first_sample} to {self.last_sample}, not {sample}")
        begin = row * self.header.context
        last = min(begin + self.header.context, self.header.tokens_used - 1)
        first_doc, last_doc = np.searchsorted(self.starts, [begin, last], side="right") - 1
        return [self.doc_id(index) for index in range(int(first_doc), int(last_doc) + 1)]

    @property
    def last_sample(self) -> int:
        return self.first_sample + self.sequences - 1

    def samples_of(self, doc_id: str) -> range:
        """Samples (numbered in the split) that hold a token of the document; empty when it is not in this shard."""
        try:
            wanted = bytes.fromhex(doc_id)
        except ValueError:
            return range(0)  # not the id of any document
        low, high = 0, self.header.documents
        while low < high:
            middle = (low + high) // 2
            if bytes.fromhex(self.doc_id(int(self.order[middle]))) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == self.header.documents or self.doc_id(int(self.order[low])) != doc_id:
            return range(0)
        index, context = int(self.order[low]), self.header.context
        begin = int(self.starts[index])
        end = int(self.starts[index + 1]) if index + 1 < self.header.documents else self.header.tokens_used
        # Rows overlap by one token: what begins on a row's first token is also on the last of the row before.
        first = max(0, -(-begin // context) - 1)
        last = min(self.sequences - 1, (end - 1) // context)
        return range(self.first_sample + first, self.first_sample + last + 1)


def _header(file: Sections) -> Header:
    token_bytes, _, context, vocabulary, eos, _, sequences, tokens_used, documents, first_sample = file.fields
    return Header(token_bytes, context, vocabulary, eos, sequences, tokens_used, documents, first_sample, file.extents)
