"""The file of an index: a memory-mapped copy of the tokens of a split, and the order of its suffixes.

Opening reads the header alone; `verify` finds any flipped byte and names where.

Layout, little-endian: a header of 512 bytes that ends with its own digest, then the sections `tokens` (u16 or u32: the
stream of the split up to its last end-of-text token), `suffixes` (u32: the positions of all other tokens, sorted by
what follows them), `starts` (u32: where each document begins in the stream) and `doc_ids` (32 bytes each, in stream
order), each aligned to 64 bytes, zeros between.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from tutti.corpus.canonical import content_digest
from tutti.corpus.errors import CorruptShard, UnsupportedFormat
from tutti.corpus.tokenshard import Extent, token_dtype

MAGIC = b"TUTTISPN"
FORMAT_MAJOR = 1
FORMAT_MINOR = 0
HEADER_BYTES = 512
_ALIGN = 64
_FIXED = struct.Struct("<8sHHIIQQQ32s")
_SECTION = struct.Struct("<QQ32s")
_DIGEST_AT = HEADER_BYTES - 32
_READ = 1 << 16


class Section(StrEnum):
    """The parts of the file, in order."""

    TOKENS = "tokens"
    SUFFIXES = "suffixes"
    STARTS = "starts"
    DOC_IDS = "doc_ids"


@dataclass(frozen=True, slots=True)
class Header:
    """The fixed part of an index; `shards`: the digest of the content digests of its token shards, in order."""

    vocabulary: int
    eos: int
    tokens: int
    suffixes: int
    documents: int
    shards: bytes
    sections: tuple[Extent, ...]

    def content_digest(self) -> str:
        """The name of the index: it follows from the header, which holds the digest of every section."""
        return content_digest(
            {
                "eos": self.eos,
                "sections": [extent.digest.hex() for extent in self.sections],
                "shards": self.shards.hex(),
                "vocabulary": self.vocabulary,
            },
            kind="span index",
        )

    @property
    def file_bytes(self) -> int:
        return self.sections[-1].offset + self.sections[-1].length

    def encode(self) -> bytes:
        fixed = _FIXED.pack(
            MAGIC, FORMAT_MAJOR, FORMAT_MINOR, self.vocabulary, self.eos, self.tokens, self.suffixes, self.documents,
            self.shards,
        )  # fmt: skip
        table = b"".join(_SECTION.pack(extent.offset, extent.length, extent.digest) for extent in self.sections)
        body = (fixed + table).ljust(_DIGEST_AT, b"\0")
        return body + blake3(body).digest()


def extents(sections: Sequence[Path]) -> tuple[Extent, ...]:
    """Where the files of the sections come to lie in an index."""
    found, offset = [], HEADER_BYTES
    for path in sections:
        offset = -(-offset // _ALIGN) * _ALIGN
        state = blake3()
        for block in _blocks(path):
            state.update(block)
        found.append(Extent(offset, path.stat().st_size, state.digest()))
        offset += found[-1].length
    return tuple(found)


def content(header: Header, sections: Sequence[Path]) -> Iterator[bytes]:
    """The bytes of an index, piece by piece."""
    yield header.encode()
    end = HEADER_BYTES
    for extent, path in zip(header.sections, sections, strict=True):
        yield b"\0" * (extent.offset - end)
        yield from _blocks(path)
        end = extent.offset + extent.length


class IndexFile:
    """An open file: arrays over the mapping, nothing copied."""

    def __init__(self, path: Path) -> None:
        """Map `path`; raises UnsupportedFormat or CorruptShard when the header does not hold."""
        self.name = path.name
        with path.open("rb") as file:
            self.header = decode_header(file.read(HEADER_BYTES), name=self.name)
            size = file.seek(0, 2)
            if size != self.header.file_bytes:
                raise CorruptShard(
                    shard=self.name, section="file", seen=f"{size} bytes", expected=f"{self.header.file_bytes} bytes"
                )
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.tokens = self._array(0, token_dtype(self.header.vocabulary), self.header.tokens)
        self.suffixes = self._array(1, "<u4", self.header.suffixes)
        self.starts = self._array(2, "<u4", self.header.documents)

    def _array(self, section: int, dtype: str | np.dtype[Any], count: int) -> npt.NDArray[Any]:
        return np.frombuffer(self._map, dtype, count, self.header.sections[section].offset)

    def doc_id(self, index: int) -> str:
        """The id of the `index`-th document in stream order."""
        begin = self.header.sections[3].offset + 32 * index
        return self._map[begin : begin + 32].hex()

    def verify(self) -> None:
        """Read every byte; raises CorruptShard naming the section, or the gap between two, that does not hold."""
        view, end = memoryview(self._map), HEADER_BYTES
        for section, extent in zip(Section, self.header.sections, strict=True):
            if any(view[end : extent.offset]):
                raise CorruptShard(shard=self.name, section=f"gap before {section}", seen="a byte", expected="zeros")
            end = extent.offset + extent.length
            seen = blake3(view[extent.offset : end]).digest()
            if seen != extent.digest:
                raise CorruptShard(
                    shard=self.name, section=section.value, seen=seen.hex(), expected=extent.digest.hex()
                )


def decode_header(head: bytes, *, name: str) -> Header:
    """Check magic, version and the header's own digest."""
    if len(head) < HEADER_BYTES:
        raise CorruptShard(shard=name, section="header", seen=f"{len(head)} bytes", expected=f"{HEADER_BYTES} bytes")
    magic, major, _, *counts, shards = _FIXED.unpack_from(head)
    if magic != MAGIC:
        raise UnsupportedFormat(f"{name}: not an index of spans: begins with {magic!r}, expected {MAGIC!r}")
    if major > FORMAT_MAJOR:
        raise UnsupportedFormat(
            f"{name}: format {major} of an index of spans, this version reads {FORMAT_MAJOR}; use a newer tutti"
        )
    seen = blake3(head[:_DIGEST_AT]).digest()
    if seen != head[_DIGEST_AT:]:
        raise CorruptShard(shard=name, section="header", seen=seen.hex(), expected=head[_DIGEST_AT:].hex())
    sections = tuple(Extent(*_SECTION.unpack_from(head, _FIXED.size + k * _SECTION.size)) for k in range(len(Section)))
    vocabulary, eos, tokens, suffixes, documents = counts
    return Header(vocabulary, eos, tokens, suffixes, documents, shards, sections)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_READ):
            yield block
