"""Files of sections: a header that ends with its own digest and holds that of every section, then the sections.

Promises: opening reads the header alone; `Sections.verify` finds any flipped byte and names where. Layout: a header of
512 bytes (magic, major and minor version and what the kind of file tells, then offset, length and BLAKE3 of each
section, little-endian), then the sections, each aligned to 64 bytes, zeros between.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from blake3 import blake3

from tutti.records.errors import CorruptShard, UnsupportedFormat

HEADER_BYTES = 512
_ALIGN = 64
_SECTION = struct.Struct("<QQ32s")
_DIGEST_AT = HEADER_BYTES - 32


@dataclass(frozen=True, slots=True)
class Extent:
    """The position of a section, and the BLAKE3 of its bytes."""

    offset: int
    length: int
    digest: bytes

    @property
    def end(self) -> int:
        return self.offset + self.length


def aligned(end: int) -> int:
    """The start of the section after one that ends here."""
    return -(-end // _ALIGN) * _ALIGN


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. `fixed` begins with magic, major and minor version; `what`: its name, with its article."""

    what: str
    magic: bytes
    major: int
    minor: int
    fixed: struct.Struct
    sections: type[StrEnum]

    def encode(self, fields: Sequence[Any], extents: Sequence[Extent]) -> bytes:
        """A header; `fields` are those behind the versions."""
        fixed = self.fixed.pack(self.magic, self.major, self.minor, *fields)
        table = b"".join(_SECTION.pack(extent.offset, extent.length, extent.digest) for extent in extents)
        body = (fixed + table).ljust(_DIGEST_AT, b"\0")
        return body + blake3(body).digest()

    def is_of(self, head: bytes) -> bool:
        """True if a header has this magic and major version."""
        return head.startswith(self.magic + struct.pack("<H", self.major))

    def decode(self, head: bytes, *, name: str) -> tuple[tuple[Any, ...], tuple[Extent, ...]]:
        """The fields behind the versions, and the extents. Raises UnsupportedFormat or CorruptShard."""
        if len(head) < HEADER_BYTES:
            raise CorruptShard(
                shard=name, section="header", seen=f"{len(head)} bytes", expected=f"{HEADER_BYTES} bytes"
            )
        magic, major, _, *fields = self.fixed.unpack_from(head)
        if magic != self.magic:
            raise UnsupportedFormat(f"{name}: not {self.what}: begins with {magic!r}, expected {self.magic!r}")
        if major > self.major:
            raise UnsupportedFormat(
                f"{name}: {self.what.partition(' ')[2]} format {major}, this version reads {self.major}; "
                "use a newer tutti"
            )
        seen = blake3(head[:_DIGEST_AT]).digest()
        if seen != head[_DIGEST_AT:]:
            raise CorruptShard(shard=name, section="header", seen=seen.hex(), expected=head[_DIGEST_AT:].hex())
        at = self.fixed.size
        extents = [Extent(*_SECTION.unpack_from(head, at + k * _SECTION.size)) for k in range(len(self.sections))]
        return tuple(fields), tuple(extents)


class Sections:
    """An open file, mapped; nothing of it is copied."""

    def __init__(self, path: Path, *formats: Format) -> None:
        """`formats`: those that are read, by their major versions, the newest last.

        Raises UnsupportedFormat or CorruptShard when the header does not hold, or the file is cut.
        """
        self.name = path.name
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
            self._kind = next((each for each in formats if each.is_of(head)), formats[-1])
            self.fields, self.extents = self._kind.decode(head, name=self.name)
            size, expected = file.seek(0, 2), self.extents[-1].end
            if size != expected:
                raise CorruptShard(shard=self.name, section="file", seen=f"{size} bytes", expected=f"{expected} bytes")
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def verify(self) -> None:
        """Read every byte; raises CorruptShard naming the section, or the gap between two, that does not hold."""
        view, end = memoryview(self.map), HEADER_BYTES
        for section, extent in zip(self._kind.sections, self.extents, strict=True):
            if any(view[end : extent.offset]):
                raise CorruptShard(shard=self.name, section=f"gap before {section}", seen="a byte", expected="zeros")
            end = extent.end
            seen = blake3(view[extent.offset : end]).digest()
            if seen != extent.digest:
                raise CorruptShard(
                    shard=self.name, section=section.value, seen=seen.hex(), expected=extent.digest.hex()
                )
