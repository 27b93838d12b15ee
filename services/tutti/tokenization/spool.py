"""The spool: ids of documents on disk, put there as they come and read in the order in which they are packed.

Promises: what is read is a function of what was put, whatever the order of that; memory holds HELD_BYTES until they are
written, and one bucket while it is read. A bucket is a file of documents that are packed near to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from tutti.native.arrays import np, npt
from tutti.tokenization.documents import Numbers

Tokens: TypeAlias = "npt.NDArray[np.unsignedinteger]"
BUCKET_BYTES = 32 << 20
HELD_BYTES = 32 << 20


def buckets(order: Numbers, sizes: Numbers, *, bucket_bytes: int = BUCKET_BYTES) -> Numbers:
    """For each document the number of its bucket: about so many bytes of text, in this order."""
    before = np.cumsum(sizes[order]) - sizes[order]
    found = np.empty(len(sizes), np.int64)
    found[order] = before // bucket_bytes
    return found


class Spool:
    """`bucket_of`: int64 [documents], growing along every order in which documents are read."""

    def __init__(
        self, folder: Path, bucket_of: Numbers, dtype: np.dtype[np.generic], *, held_bytes: int = HELD_BYTES
    ) -> None:
        self._folder, self._bucket_of, self.dtype = folder, bucket_of, dtype
        self._held_bytes, self._size = held_bytes, 0
        self._held: list[tuple[Numbers, Numbers, Tokens]] = []
        self._written = np.zeros(int(bucket_of.max(initial=0)) + 1, np.int64)
        self._places = np.zeros(len(bucket_of), np.int64)
        self.lengths: Numbers = np.zeros(len(bucket_of), np.int64)
        folder.mkdir()

    def put(self, documents: Numbers, ids: Tokens, counts: Numbers) -> None:
        """Keep the ids of some documents, one behind the other; `counts`: how many each has."""
        self._held.append((documents, counts, ids.astype(self.dtype)))
        self.lengths[documents] = counts
        self._size += self._held[-1][2].nbytes
        if self._size >= self._held_bytes:
            self.flush()

    def flush(self) -> None:
        """Write what is held; to be called before it is read."""
        if not self._held:
            return
        documents, counts, ids = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        self._held, self._size = [], 0
        begins = np.cumsum(counts) - counts
        order = np.argsort(self._bucket_of[documents], kind="stable")
        mine = self._bucket_of[documents[order]]
        edges = np.flatnonzero(np.diff(mine, prepend=-1, append=-1))
        for low, high in pairwise(edges.tolist()):
            some, bucket = order[low:high], int(mine[low])
            self._places[documents[some]] = self._written[bucket] + np.cumsum(counts[some]) - counts[some]
            self._written[bucket] += int(counts[some].sum())
            with self._path(bucket).open("ab") as file:
                for each in some:
                    file.write(ids[begins[each] : begins[each] + counts[each]].data)

    def read(self, order: Numbers) -> Iterator[Tokens]:
        """The ids of each document of an order that stays in a bucket until it is left for good."""
        inside, held = -1, np.zeros(0, self.dtype)
        for document, bucket in zip(order.tolist(), self._bucket_of[order].tolist(), strict=True):
            if bucket != inside:
                inside, path = bucket, self._path(bucket)
                held = np.fromfile(path, self.dtype) if path.exists() else held[:0]
            begin = int(self._places[document])
            yield held[begin : begin + int(self.lengths[document])]

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{bucket:06}.tokens"
