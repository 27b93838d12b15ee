"""Packed files: read as a stream, to the last byte before their damage.

A decompressor that meets damage forgets what it had unpacked in that call.  So the place is remembered; from there the
file is read once more, by the byte.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from tutti.corpus.files.budgets import Budget
from tutti.native.arrays import pa


@cache
def damage() -> tuple[type[Exception], ...]:
    """Return the errors that reading raises if a file is cut or damaged."""
    return OSError, EOFError, zlib.error, pa.ArrowException


def why(error: BaseException) -> str:
    """The error of a file without its path, which belongs to this machine."""
    return (error.strerror or "") if isinstance(error, OSError) and error.strerror else str(error).partition("\n")[0]


_PIECE = 1 << 13


class _Stream(Protocol):
    def read1(self, size: int) -> bytes: ...

    def close(self) -> None: ...


def unpacked(path: Path) -> io.BufferedReader:
    """The content of a `.gz` or a `.zst`, all of its members or frames; reading raises those of `damage`, and Spent."""
    budget = Budget(path)
    if path.name.lower().endswith(".gz"):
        return io.BufferedReader(_Unpacked(lambda: gzip.open(path), budget), _PIECE)
    opened = partial(_opened, path)
    return io.BufferedReader(_Unpacked(opened, budget), _PIECE)


def _opened(path: Path) -> _Stream:
    stream: _Stream = pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")
    return stream


class _Unpacked(io.RawIOBase):
    def __init__(self, opened: Callable[[], _Stream], budget: Budget) -> None:
        self._budget = budget
        self._opened, self._stream, self._at, self._most = opened, opened(), 0, _PIECE

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read1(min(len(room), self._most))
        except damage():
            if self._most == 1:
                raise
            self._go_back()
            return self.readinto(room)
        self._budget.take(len(data))
        room[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _go_back(self) -> None:
        self._stream.close()
        self._stream, self._most = self._opened(), 1
        behind = self._at
        while behind and (data := self._stream.read1(min(behind, _PIECE))):
            behind -= len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
