"""Components: documents that are linked, directly or through others, under the smallest of them.

Promises: the answer is a function of the set of links. Memory is eight bytes a document.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Documents = npt.NDArray[np.int64]
"""Numbers of documents, int64; here they are their places in the order of their ids."""


class Components:
    """A forest over documents 0 … count - 1, in which each points to a smaller one of its component or to itself."""

    def __init__(self, count: int) -> None:
        self._towards = np.arange(count, dtype=np.int64)

    def join(self, left: Documents, right: Documents) -> None:
        """Link left[i] with right[i]."""
        while len(left):
            left, right = self.roots(left), self.roots(right)
            apart = left != right
            left, right = left[apart], right[apart]
            np.minimum.at(self._towards, np.maximum(left, right), np.minimum(left, right))

    def roots(self, documents: Documents) -> Documents:
        """The smallest of the component of each document."""
        found = self._towards[documents]
        while (further := self._towards[found] != found).any():
            # Paths are halved, so that long chains are walked once.
            self._towards[documents] = found = np.where(further, self._towards[found], found)
        return found
