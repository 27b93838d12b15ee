"""Budgets: how many bytes the content of a file may take, by the size of the file.

Promises: a small file that promises very much is not read further than its budget, whatever its format; text that
people wrote packs 3 to 50 times, so that a budget ends no file of theirs.
"""

from __future__ import annotations

from pathlib import Path

LEAST_BYTES, MOST_RATIO = 256 << 20, 200


class Spent(Exception):
    """The content of a file takes more than its budget."""


class Budget:
    """`take` before anything is done with the bytes."""

    def __init__(self, path: Path) -> None:
        self._left = self.bytes = max(LEAST_BYTES, MOST_RATIO * path.stat().st_size)

    def take(self, size: int) -> None:
        """Raises Spent."""
        self._left -= size
        if self._left < 0:
            raise Spent(f"more than {self.bytes} bytes unpacked, over {MOST_RATIO} times the file")
