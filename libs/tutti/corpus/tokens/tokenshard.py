"""Token shards: a memory-mapped run of tokens with the documents that it came from.

A shard of a *stream*: sample i is the tokens [i * context, i * context + context] of it, both ends included, so
neighbours share one token, every token but the stream's first is a target exactly once, and nothing is wasted but the
padding behind the last document.

A shard of *packed* rows: sample i is the tokens [i * (context + 1), (i + 1) * (context + 1)), which are whole pieces of
documents and then padding. The first token of a piece is what it is predicted from, never a target: `eos` where a
document begins, else the document's token before.

Opening reads the header alone; `verify` finds any flipped byte and names where. Layout, little-endian: a header of 512
bytes that ends with its own digest, then the sections `tokens` (u16 or u32), `starts` (u64: where each document, or
piece, begins), `doc_ids` (32 bytes each, in that order), `order` (u32: doc_ids sorted) and, of packed rows, `lengths`
(u32: how many tokens of each row are no padding), each aligned to 64 bytes, zeros between.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from blake3 import blake3

from tutti.corpus.tokens.sections import HEADER_BYTES, Extent, Format, Sections, aligned
from tutti.native.deferred import deferred
from tutti.records.canonical import content_digest, named
from tutti.records.errors import CorpusError, UnknownSample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np = deferred("numpy")

_READ_BYTES = 1 << 20


class Section(StrEnum):
    """The parts of the file, in order."""

    TOKENS = "tokens"
    STARTS = "starts"
    DOC_IDS = "doc_ids"
    ORDER = "order"


class PackedSection(StrEnum):
    """The parts of the file of packed rows, in order."""

    TOKENS = "tokens"
    STARTS = "starts"
    DOC_IDS = "doc_ids"
    ORDER = "order"
    LENGTHS = "lengths"


_FIXED = struct.Struct("<8sHHHHIIIIQQQQ")
PACKED = Format("a token shard", b"TUTTITOK", 2, 0, _FIXED, PackedSection)
STREAM = Format("a token shard", b"TUTTITOK", 1, 0, _FIXED, Section)


@dataclass(frozen=True, slots=True)
class TokenRun:
    """The content of a shard.

    `tokens`: sequences * context + 1 token ids, padded behind `tokens_used`; `starts[k]`: where document `doc_ids[k]`
    begins, the first 0 (a document that began in an earlier shard begins here at 0); `first_sample`: the number of
    this shard's first sample in its split.

    Of packed rows (`lengths` int [sequences] is given): sequences * (context + 1) token ids, of which the first
    `lengths[i]` of row i are used, `tokens_used` in all; `starts[k]`: where a piece of document `doc_ids[k]` begins.
    """

    tokens: npt.NDArray[np.integer]
    tokens_used: int
    starts: npt.NDArray[np.integer]
    doc_ids: Sequence[str]
    context: int
    vocabulary: int
    eos: int
    first_sample: int
    lengths: npt.NDArray[np.integer] | None = None


@dataclass(frozen=True, slots=True)
class ShardShape:
    """The properties of a shard that are known before its tokens."""

    context: int
    vocabulary: int
    eos: int
    first_sample: int
    packed: bool = False


@dataclass(frozen=True, slots=True)
class TokenShardInfo:
    """The entry of a token shard in a manifest."""

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
    """The fixed part of a shard; of packed rows `documents` counts their pieces."""

    token_bytes: int
    context: int
    vocabulary: int
    eos: int
    sequences: int
    tokens_used: int
    documents: int
    first_sample: int
    sections: tuple[Extent, ...]

    @property
    def packed(self) -> bool:
        """True if rows hold whole pieces; otherwise they are cut from a stream."""
        return len(self.sections) == len(PackedSection)

    @property
    def stride(self) -> int:
        """Tokens from the beginning of a row to that of the next."""
        return self.context + 1 if self.packed else self.context

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
        return (PACKED if self.packed else STREAM).encode(fields, self.sections)


def token_dtype(vocabulary: int) -> np.dtype[np.generic]:
    """u16 where every id fits, else u32."""
    return np.dtype("<u2") if vocabulary <= 1 << 16 else np.dtype("<u4")


def encode_token_shard(run: TokenRun) -> tuple[bytes, TokenShardInfo]:
    """The file of a shard and what its manifest says of it; raises CorpusError for an impossible run."""
    file = io.BytesIO()
    shape = ShardShape(run.context, run.vocabulary, run.eos, run.first_sample, packed=run.lengths is not None)
    writer = TokenShardWriter(file, shape)
    writer.append(run.tokens)
    ids = np.frombuffer(b"".join(bytes.fromhex(doc_id) for doc_id in run.doc_ids), "S32")
    info = writer.finish(tokens_used=run.tokens_used, starts=run.starts, doc_ids=ids, lengths=run.lengths)
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
        self,
        *,
        tokens_used: int,
        starts: npt.NDArray[np.integer],
        doc_ids: npt.NDArray[np.bytes_],
        lengths: npt.NDArray[np.integer] | None = None,
    ) -> TokenShardInfo:
        """Write the rest: `starts`, `doc_ids` (S32), `lengths` as in TokenRun. Raises CorpusError."""
        shape = self._shape
        _check(shape, tokens_used, starts, doc_ids)
        if lengths is None:
            _check_stream(shape, self._tokens, tokens_used, starts, doc_ids)
        else:
            _check_packed(shape, self._tokens, tokens_used, starts, lengths)
        sequences = (self._tokens - 1) // shape.context if lengths is None else len(lengths)
        self._extents.append(Extent(HEADER_BYTES, self._tokens * self._dtype.itemsize, self._digest.digest()))
        order = np.argsort(doc_ids, kind="stable")
        for part in (starts.astype("<u8"), doc_ids, order.astype("<u4")):
            self._add(part.tobytes())
        if lengths is not None:
            self._add(lengths.astype("<u4").tobytes())
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
            documents=len(doc_ids) if lengths is None else len(np.unique(doc_ids)),
            first_doc_id=first,
            last_doc_id=last,
        )

    def _add(self, part: bytes) -> None:
        end = self._extents[-1].end
        offset = aligned(end)
        self._file.write(bytes(offset - end) + part)
        self._extents.append(Extent(offset, len(part), blake3(part).digest()))

    def _bytes_digest(self) -> str:
        """The digest of the whole file, whose beginning was written last."""
        self._file.seek(0)
        digest = blake3()
        while data := self._file.read(_READ_BYTES):
            digest.update(data)
        return named(digest)


def _check(shape: ShardShape, used: int, starts: npt.NDArray[np.integer], doc_ids: npt.NDArray[np.bytes_]) -> None:
    if shape.context < 1:
        raise CorpusError(f"context is {shape.context}, expected at least 1")
    if len(starts) != len(doc_ids) or len(starts) == 0 or starts[0] != 0 or np.any(np.diff(starts) <= 0):
        raise CorpusError("expected one start for each document, the first 0, each greater than the one before")
    if used <= 1:
        raise CorpusError(f"tokens_used is {used}, expected at least 2")


def _check_stream(
    shape: ShardShape, tokens: int, used: int, starts: npt.NDArray[np.integer], doc_ids: npt.NDArray[np.bytes_]
) -> None:
    if shape.packed or tokens <= shape.context or (tokens - 1) % shape.context:
        raise CorpusError(
            f"{tokens} tokens are no whole number of sequences of {shape.context}: "
            "expected sequences * context + 1; pad the last sequence"
        )
    if used > tokens:
        raise CorpusError(f"tokens_used is {used}, expected 2 to {tokens}")
    if int(starts[-1]) >= used:
        raise CorpusError(f"a document begins at {starts[-1]}, behind the last token {used - 1}")
    if len(np.unique(doc_ids)) != len(doc_ids):
        raise CorpusError("a document is there twice; a shard of a stream holds each document in one piece")


def _check_packed(
    shape: ShardShape,
    tokens: int,
    used: int,
    starts: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.integer],
) -> None:
    width = shape.context + 1
    if not shape.packed or not len(lengths) or tokens != len(lengths) * width:
        raise CorpusError(f"{tokens} tokens are not {len(lengths)} rows of {width}; pad each row")
    if lengths.min() < 2 or lengths.max() > width or int(lengths.sum()) != used:
        raise CorpusError(
            f"rows hold {lengths.min()} to {lengths.max()} tokens, {lengths.sum()} in all: "
            f"expected 2 to {width}, and tokens_used ({used}) in all"
        )
    rows, columns = np.divmod(starts, width)
    if len(np.setdiff1d(np.arange(len(lengths)), rows[columns == 0])) or np.any(columns >= lengths[rows]):
        raise CorpusError("expected a piece at the beginning of each row, and none in its padding")


class TokenShard:
    """An open shard: arrays over the mapped file, nothing copied."""

    def __init__(self, path: Path) -> None:
        """Map `path`; raises UnsupportedFormat or CorruptShard when the header does not hold."""
        self._file = Sections(path, STREAM, PACKED)
        self.name, self._map = self._file.name, self._file.map
        self.header = _header(self._file)
        dtype: np.dtype[np.unsignedinteger] = np.dtype("<u2" if self.header.token_bytes == 2 else "<u4")
        self.tokens = np.frombuffer(self._map, dtype, self._length(0, dtype.itemsize), self._offset(0))
        self.starts = np.frombuffer(self._map, "<u8", self.header.documents, self._offset(1)).view("<i8")
        self.doc_ids = np.frombuffer(self._map, "S32", self.header.documents, self._offset(2))
        self.order = np.frombuffer(self._map, "<u4", self.header.documents, self._offset(3))
        self.lengths = np.frombuffer(self._map, "<u4", self.sequences, self._offset(4)) if self.header.packed else None
        stride = self.header.stride * dtype.itemsize
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

    def present(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """int64: how many tokens of each of these rows (numbered in the shard) are no padding."""
        if self.lengths is not None:
            return self.lengths[rows].astype(np.int64)
        return np.minimum(self.header.tokens_used - rows * self.header.context, self.header.context + 1)

    def documents_of(self, sample: int) -> list[str]:
        """Ids of the documents that have a token in `sample` (numbered in the split), in the order of the row."""
        row = sample - self.first_sample
        if not 0 <= row < self.sequences:
            raise UnknownSample(f"{self.name} holds samples {self.first_sample} to {self.last_sample}, not {sample}")
        begin = row * self.header.stride
        last = begin + int(self.present(np.array([row]))[0]) - 1
        first_doc, last_doc = np.searchsorted(self.starts, [begin, last], side="right") - 1
        return list(dict.fromkeys(self.doc_id(index) for index in range(int(first_doc), int(last_doc) + 1)))

    def piece(self, index: int) -> npt.NDArray[np.unsignedinteger]:
        """The tokens of the `index`-th piece of packed rows, from the one that it is predicted from."""
        begin = int(self.starts[index])
        row = begin // self.header.stride
        end = row * self.header.stride + int(self.present(np.array([row]))[0])
        if index + 1 < self.header.documents:
            end = min(end, int(self.starts[index + 1]))
        return self.tokens[begin:end]

    @property
    def last_sample(self) -> int:
        return self.first_sample + self.sequences - 1

    def samples_of(self, doc_id: str) -> Sequence[int]:
        """Samples (numbered in the split) that hold a token of the document; empty when it is not in this shard."""
        held = self.places_of(doc_id)
        if self.header.packed:
            rows = (int(self.starts[index]) // self.header.stride for index in held)
            return list(dict.fromkeys(self.first_sample + row for row in rows))
        if not held:
            return range(0)
        (index,), context = held, self.header.context
        begin = int(self.starts[index])
        end = int(self.starts[index + 1]) if index + 1 < self.header.documents else self.header.tokens_used
        # Rows overlap by one token: what begins on a row's first token is also on the last of the row before.
        first = max(0, -(-begin // context) - 1)
        last = min(self.sequences - 1, (end - 1) // context)
        return range(self.first_sample + first, self.first_sample + last + 1)

    def places_of(self, doc_id: str) -> list[int]:
        """The positions in `doc_ids` of this document, ascending: at most one of a stream, one per piece of packed
        rows.
        """
        try:
            wanted = bytes.fromhex(doc_id)
        except ValueError:
            return []  # not the id of any document
        low, high = 0, self.header.documents
        while low < high:
            middle = (low + high) // 2
            if bytes.fromhex(self.doc_id(int(self.order[middle]))) < wanted:
                low = middle + 1
            else:
                high = middle
        found = []
        while low < self.header.documents and self.doc_id(index := int(self.order[low])) == doc_id:
            found.append(index)
            low += 1
        return found


def _header(file: Sections) -> Header:
    token_bytes, _, context, vocabulary, eos, _, sequences, tokens_used, documents, first_sample = file.fields
    return Header(token_bytes, context, vocabulary, eos, sequences, tokens_used, documents, first_sample, file.extents)
