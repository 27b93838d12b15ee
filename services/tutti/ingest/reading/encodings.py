"""Encodings: bodies without the compression in which they came, for those who fetch and for those who read archives.

Promises: no more is unpacked than is asked for; what ends too early, or is another thing than it says, has its reason.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tutti.ingest.failures import Failure, FetchFailed

_PIECE = 64 << 10
_FIRST_STEP = 512
_NONE, _INFLATED = "identity", ("gzip", "x-gzip", "deflate")
_MEMBER = b"\x1f\x8b\x08"
"""The first bytes of a gzip member."""
MAX_MEMBERS = 10_000
"""Maximum number of gzip members in one body: writers of blocks have one for 64 KiB or more."""


def known(encoding: str) -> bool:
    """True if all encodings in a header of this value can be decoded here."""
    return all(coding == _NONE or coding in _INFLATED for coding in _codings(encoding))


def undone(body: bytes, encoding: str, max_bytes: int, *, cut: bool = False, part: bool = False) -> bytes:
    """A body without what its Content-Encoding names. Raises FetchFailed when that is unknown, wrong or too large.

    `cut`: of what is too large as much as may be; `part`: what is there may end anywhere.
    """
    for coding in reversed(_codings(encoding)):
        if coding == _NONE:
            continue
        if coding not in _INFLATED:
            raise FetchFailed(Failure.ENCODING, f"{coding[:40]!r} was not asked for")
        try:
            body = _inflated(body, coding, max_bytes, cut, part)
        except zlib.error as error:
            raise FetchFailed(Failure.ENCODING, f"{coding}: {error}") from error
    return body[:max_bytes] if cut else body


def _codings(encoding: str) -> list[str]:
    """In the order in which they were done."""
    return [each.strip().lower() for each in encoding.split(",") if each.strip()]


def _inflated(body: bytes, coding: str, max_bytes: int, cut: bool, part: bool) -> bytes:
    """`cut`: what is too large is cut; `part`: it may end anywhere.

    Raises zlib.error, FetchFailed. What says deflate may come without the frame of zlib. What lies behind a member and
    does not begin as one is ignored, as browsers do: padding, or a line that was written in addition.
    """
    bare = coding == "deflate" and not (len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2]) % 31 == 0)
    parts, size, at, members = list[bytes](), 0, 0, 0
    while at < len(body) and (members == 0 or _goes_on(body[at : at + len(_MEMBER)], coding)):
        members += 1
        if members > MAX_MEMBERS:
            if cut:
                break
            raise FetchFailed(Failure.ENCODING, f"{coding} of more than {MAX_MEMBERS:,} members")
        member = _Member(bare)
        for piece in member.pieces(memoryview(body)[at:], max_bytes + 1 - size):
            parts.append(piece)
            size += len(piece)
        at += member.read
        if size > max_bytes and not cut:
            raise FetchFailed(Failure.TOO_LARGE, f"more than {max_bytes} bytes once decoded")
        if size > max_bytes or (part and not member.whole):
            break
        if not member.whole:
            raise FetchFailed(Failure.CUT, f"{coding} ends too early")
    return b"".join(parts)


def _goes_on(behind: bytes, coding: str) -> bool:
    """True if these bytes after a member begin another one, or its mark; deflate has none."""
    return coding != "deflate" and _MEMBER.startswith(behind)


class _Member:
    """One of the streams, one behind the other, that compressed bytes are. It is fed in steps that grow: what zlib does
    not use of a step it copies.
    """

    def __init__(self, bare: bool) -> None:
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        self.read = 0
        """Bytes that were used."""

    @property
    def whole(self) -> bool:
        return self._stream.eof

    def pieces(self, data: memoryview, most: int) -> Iterator[bytes]:
        """Decode the beginning of these bytes, until the member ends or the limit is reached. Raises zlib.error."""
        step = _FIRST_STEP
        while most > 0 and not self.whole:
            given = data[self.read : self.read + step]
            piece = self._stream.decompress(given, min(most, 1 << 20))
            if not given and not piece:
                return
            self.read += len(given) - len(self._stream.unconsumed_tail) - len(self._stream.unused_data)
            step, most = min(2 * step, _PIECE), most - len(piece)
            yield piece
