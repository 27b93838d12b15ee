"""A batch of packed sequences, as numpy arrays.

Tokens are gathered at once; the dense views of the documents (which most recipes need once a leaf, some never) are
computed when they are first asked for, from boundaries alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

PADDING = -1


@dataclass(frozen=True, eq=False)
class PackedSequenceBatch:
    """`rows` sequences of `context + 1` tokens.

    `tokens`: int32 [rows, context + 1]; `lengths`: int64 [rows], how many of them are not padding; `boundaries`: int64,
    sorted, row * (context + 1) + column of every token that begins a document inside a row (a row's first never).
    """

    tokens: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    boundaries: npt.NDArray[np.int64]

    @property
    def rows(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def context(self) -> int:
        return int(self.tokens.shape[1]) - 1

    @cached_property
    def documents(self) -> npt.NDArray[np.int32]:
        """int32 [rows, context + 1]: the ordinal of each token's document within its row, -1 for padding."""
        marks = np.zeros(self.tokens.shape, np.int32)
        marks.reshape(-1)[self.boundaries] = 1
        ordinals = np.cumsum(marks, axis=1, dtype=np.int32)
        ordinals[self._columns >= self.lengths[:, None]] = PADDING
        return ordinals

    @cached_property
    def valid(self) -> npt.NDArray[np.bool_]:
        """bool [rows, context]: whether the target tokens[:, 1:] is a token of the corpus; only padding is not."""
        valid: npt.NDArray[np.bool_] = self._columns[1:] < self.lengths[:, None]
        return valid

    @cached_property
    def positions(self) -> npt.NDArray[np.int32]:
        """int32 [rows, context + 1]: columns since the token's document began in this row.

        For attention that stops at document boundaries; attention over the whole row counts columns instead.
        """
        begins = np.zeros(self.tokens.shape, np.int32)
        begins.reshape(-1)[self.boundaries] = self.boundaries % self.tokens.shape[1]
        return self._columns - np.maximum.accumulate(begins, axis=1)

    @property
    def _columns(self) -> npt.NDArray[np.int32]:
        return np.arange(self.tokens.shape[1], dtype=np.int32)
