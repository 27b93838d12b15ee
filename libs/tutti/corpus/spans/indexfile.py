"""The file of an index: a memory-mapped copy of the tokens of a split, and the order of its suffixes.

Opening reads the header alone; `verify` finds any flipped byte and names where.

Layout, little-endian: a header of 512 bytes that ends with its own digest, then the sections `tokens` (u16 or u32: the
stream of the split up to its last end-of-text token), `suffixes` (u32: the positions of all other tokens, sorted by
what follows them), `starts` (u32: where each document begins in the stream) and `doc_ids` (32 bytes each, in stream
order), each aligned to 64 bytes, zeros between.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from blake3 import blake3

from tutti.corpus.tokens.sections import HEADER_BYTES, Extent, Format, Sections, aligned
from tutti.corpus.tokens.tokenshard import token_dtype
from tutti.native.arrays import np, npt
from tutti.records.canonical import content_digest

_READ = 1 << 16


class Section(StrEnum):
    """The parts of the file, in order."""

    TOKENS = "tokens"
    SUFFIXES = "suffixes"
    STARTS = "starts"
    DOC_IDS = "doc_ids"


FORMAT = Format("an index of spans", b"TUTTISPN", 1, 0, struct.Struct("<8sHHIIQQQ32s"), Section)


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

    def encode(self) -> bytes:
        counts = (self.vocabulary, self.eos, self.tokens, self.suffixes, self.documents)
        return FORMAT.encode((*counts, self.shards), self.sections)


def extents(sections: Sequence[Path]) -> tuple[Extent, ...]:
    """The extents of the sections in an index."""
    found, offset = [], HEADER_BYTES
    for path in sections:
        offset = aligned(offset)
        state = blake3()
        for block in _blocks(path):
            state.update(block)
        found.append(Extent(offset, path.stat().st_size, state.digest()))
        offset = found[-1].end
    return tuple(found)


def content(header: Header, sections: Sequence[Path]) -> Iterator[bytes]:
    """The bytes of an index, piece by piece."""
    yield header.encode()
    end = HEADER_BYTES
    for extent, path in zip(header.sections, sections, strict=True):
        yield b"\0" * (extent.offset - end)
        yield from _blocks(path)
        end = extent.end


class IndexFile:
    """An open file: arrays over the mapping, nothing copied."""

    def __init__(self, path: Path) -> None:
        """Map `path`; raises UnsupportedFormat or CorruptShard when the header does not hold."""
        self._file = Sections(path, FORMAT)
        self.name, self._map = self._file.name, self._file.map
        vocabulary, eos, tokens, suffixes, documents, shards = self._file.fields
        self.header = Header(vocabulary, eos, tokens, suffixes, documents, shards, self._file.extents)
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
        self._file.verify()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_READ):
            yield block
