"""A batch of packed sequences, as numpy arrays.

Tokens are gathered at once; the dense arrays of the documents are computed from boundaries alone, when they are first
asked for, and once for all leaves of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tutti.native.arrays import np, npt

PADDING = -1


class Leaf(NamedTuple):
    """Some rows of a batch as a model takes them; views of its arrays."""

    tokens: npt.NDArray[np.int32]
    documents: npt.NDArray[np.int32]
    valid: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class PackedSequenceBatch:
    """`rows` sequences of `context + 1` tokens.

    `tokens`: int32 [rows, context + 1]; `lengths`: int64 [rows], how many of them are not padding; `boundaries`: int64,
    sorted, row * (context + 1) + column of every token that begins a document inside a row (a row's first never);
    `packed`: bool [rows], whether such a token is no target in a row, but only what the next is predicted from.
    """

    tokens: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]
    boundaries: npt.NDArray[np.int64]
    packed: npt.NDArray[np.bool_]

    @property
    def rows(self) -> int:
        return int(self.tokens.shape[0])

    @property
    def context(self) -> int:
        return int(self.tokens.shape[1]) - 1

    @cached_property
    def documents(self) -> npt.NDArray[np.int32]:
        """int32 [rows, context + 1]: the ordinal of each token's document within its row, -1 for padding."""
        edges = np.concatenate(([0], self.boundaries, [self.tokens.size]))
        ordinals = np.arange(len(edges) - 1, dtype=np.int32).repeat(edges[1:] - edges[:-1]).reshape(self.tokens.shape)
        # No boundary is a row's first token.  In place: fresh pages cost more than the difference.
        ordinals -= ordinals[:, :1].copy()
        if self._padded:
            ordinals[self._columns >= self.lengths[:, None]] = PADDING
        return ordinals

    @cached_property
    def valid(self) -> npt.NDArray[np.bool_]:
        """bool [rows, context]: whether the target tokens[:, 1:] counts; padding does not, nor what leads a piece."""
        valid = np.ones((self.rows, self.context), np.bool_)
        if self._padded:
            valid &= self._columns[1:] < self.lengths[:, None]
        if self.packed.any():
            row, column = np.divmod(self.boundaries, self.tokens.shape[1])
            valid[row, column - 1] &= ~self.packed[row]
        return valid

    @cached_property
    def positions(self) -> npt.NDArray[np.int32]:
        """int32 [rows, context + 1]: columns since the token's document began in this row.

        For attention that stops at document boundaries; attention over the whole row counts columns instead.
        """
        begins = np.zeros(self.tokens.shape, np.int32)
        begins.reshape(-1)[self.boundaries] = self.boundaries % self.tokens.shape[1]
        return self._columns - np.maximum.accumulate(begins, axis=1)

    def leaves(self, rows: int) -> list[Leaf]:
        """Its rows in order, `rows` of them a leaf; the last leaf has what is left."""
        tokens, documents, valid = self.tokens, self.documents, self.valid
        cuts = [slice(first, first + rows) for first in range(0, self.rows, rows)]
        return [Leaf(tokens[cut], documents[cut], valid[cut]) for cut in cuts]

    @cached_property
    def _padded(self) -> bool:
        return int(self.lengths.min()) <= self.context

    @property
    def _columns(self) -> npt.NDArray[np.int32]:
        return np.arange(self.tokens.shape[1], dtype=np.int32)
