"""Ends of archives: whether the last record of a file is all there.

A reader of WARC takes the file that ends before a record says what it is, or within the head of a member of gzip, for
one that ended; of zstd it tells itself that the last frame is not whole.  Promises: memory holds no more than a piece;
of what was read before nothing is read again, but where all records are one member of gzip.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_BREAK = (b"", b"\r\n", b"\n")
"""The end of the head of a record, or of the file within one."""


def is_cut(path: Path, last: int) -> bool:
    """True if a file that was read to its end, however it is compressed, ends within a record.

    `last`: where the last one that was read begins.
    """
    with path.open("rb") as file:
        begin = file.read(len(_ZSTD))
        if begin == _ZSTD:
            return False
        packed = begin.startswith(_GZIP)
        file.seek(last)
        if not packed:
            return _ends_within(file)
        begins_member = file.read(len(_GZIP)) == _GZIP
        file.seek(last if begins_member else 0)
        try:
            return _ends_within(gzip.GzipFile(fileobj=file))  # type: ignore[arg-type]
        except (EOFError, OSError, zlib.error):
            return True


def _ends_within(file: BinaryIO) -> bool:
    """True if records, the first of which begins here, end before the last has as many bytes as it declares."""
    while line := file.readline(_PIECE):
        if not line.strip():
            continue
        missing = 0
        while line not in _BREAK:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length" and value.strip().isdigit():
                missing = int(value)
            line = file.readline(_PIECE)
        if not line:
            return True
        while missing:
            piece = file.read(min(missing, _PIECE))
            if not piece:
                return True
            missing -= len(piece)
    return False
