"""Names: the ids of documents in their order; a document's number is its place among them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.texts import buffers
from tutti.dedup.components import Documents

LARGEST = 2**32
_TOGETHER = 1 << 16


class Names:
    """All ids, sorted, each once; the memory is the longest id's length, and eight bytes, for each."""

    def __init__(self, ids: Iterable[pa.Array]) -> None:
        """Raises ValueError for an id with a NUL character, or more than LARGEST documents."""
        known, new, waiting = np.zeros(0, "S1"), [], 0
        for part in ids:
            new.append(letters(part))
            if not _in_a_row(part)[0].all():
                raise ValueError("a doc_id with a NUL character; expected none: name the document anew")
            waiting += len(part)
            if waiting >= max(_TOGETHER, len(known) // 4):
                known, new, waiting = _each_once(np.concatenate([known, *new])), [], 0
        self._ids = _each_once(np.concatenate([known, *new]))
        self._begins = _begins(self._ids)
        if len(self) > LARGEST:
            raise ValueError(f"{len(self)} documents; expected at most {LARGEST}: cut the corpus")

    def __len__(self) -> int:
        return len(self._ids)

    def documents(self, ids: pa.Array) -> Documents:
        """The numbers of ids that are all here."""
        given = letters(ids)
        found = np.searchsorted(self._begins, _begins(given))
        others = np.flatnonzero(self._ids[found] != given)  # an id before them begins as they do
        found[others] = np.searchsorted(self._ids, given[others])
        return found.astype(np.int64, copy=False)

    def before(self, letter: str) -> int:
        """The number of ids that precede all ids with this prefix."""
        return int(np.searchsorted(self._ids, np.bytes_(letter.encode())))

    def ids(self, documents: Documents) -> pa.Array:
        """The ids of numbers, a string array."""
        return pa.array(self._ids[documents].tolist(), pa.binary()).cast(pa.string())


def letters(ids: pa.Array) -> npt.NDArray[np.bytes_]:
    """The UTF-8 of strings."""
    every, bounds = _in_a_row(ids)
    sizes = np.diff(bounds)
    if len(sizes) and sizes[0] and (sizes == sizes[0]).all():
        return every.view(f"S{sizes[0]}").copy()  # the buffer is larger by far
    values = ids.cast(pa.binary()).to_pylist()
    return np.array(values, np.bytes_) if values else np.zeros(0, "S1")


def _each_once(ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bytes_]:
    """Sorted; those of a shard are in order already, and a stable sort merges what is."""
    ids = np.sort(ids, kind="stable")
    new = np.ones(len(ids), np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=new[1:])
    return ids[new]


def _begins(ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each, as a number in the same order."""
    return ids.astype("S8").view(">u8").astype(np.uint64)


def _in_a_row(ids: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of all ids in a row, and where each begins there."""
    data, bounds = buffers(ids)
    return data[bounds[0] : bounds[-1]], bounds
