"""Names: the ids of documents in their order; a document's number is its place among them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.dedup.components import Documents

LARGEST = 2**32
_TOGETHER = 1 << 16


class Names:
    """All ids, sorted, each once; the memory is the longest id's length for each."""

    def __init__(self, ids: Iterable[pa.Array]) -> None:
        """Raises ValueError for an id with a NUL character, or more than LARGEST documents."""
        known, new, waiting = np.zeros(0, "S1"), [], 0
        for part in ids:
            new.append(_bytes(part))
            if not _letters(part)[0].all():
                raise ValueError("a doc_id with a NUL character; expected none: name the document anew")
            waiting += len(part)
            if waiting >= max(_TOGETHER, len(known) // 4):
                known, new, waiting = np.unique(np.concatenate([known, *new])), [], 0
        self._ids = np.unique(np.concatenate([known, *new]))
        if len(self) > LARGEST:
            raise ValueError(f"{len(self)} documents; expected at most {LARGEST}: cut the corpus")

    def __len__(self) -> int:
        return len(self._ids)

    def documents(self, ids: pa.Array) -> Documents:
        """The numbers of ids that are all here."""
        return np.searchsorted(self._ids, _bytes(ids)).astype(np.int64)

    def ids(self, documents: Documents) -> pa.Array:
        """The ids of numbers, a string array."""
        return pa.array(self._ids[documents].tolist(), pa.binary()).cast(pa.string())


def _bytes(ids: pa.Array) -> npt.NDArray[np.bytes_]:
    letters, bounds = _letters(ids)
    sizes = np.diff(bounds)
    if len(sizes) and sizes[0] and (sizes == sizes[0]).all():
        return letters.view(f"S{sizes[0]}").copy()  # the buffer is larger by far
    values = ids.cast(pa.binary()).to_pylist()
    return np.array(values, np.bytes_) if values else np.zeros(0, "S1")


def _letters(ids: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of all ids in a row, and where each begins there."""
    values = ids.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    if not len(values) or data is None:
        return np.zeros(0, np.uint8), np.zeros(len(values) + 1, np.int64)
    bounds = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]], bounds
