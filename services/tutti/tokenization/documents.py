"""Documents: which there are and how long, and their texts, a few at a time.

Promises: a document is there once, however many shards hold it; its number is its place among all ids in order. Memory
is about 60 bytes a document, and the texts of a few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tutti.corpus.documents.cuts import Cuts
from tutti.corpus.rows import batches
from tutti.native.arrays import np, npt, pa, pc

Ids: TypeAlias = "npt.NDArray[np.bytes_]"
"""S32 [documents]: the bytes of each doc_id."""

Numbers: TypeAlias = "npt.NDArray[np.int64]"
BATCH = 128
ABSENT = -1


@dataclass(frozen=True, slots=True)
class Texts:
    """Some documents: their numbers, int64 [n], and as many strings."""

    documents: Numbers
    texts: pa.Array


class Documents:
    """The documents of local shard files, whose bytes were compared with their digests before, but those `dropped`;
    their texts without what is cut out of them.

    `ids`: S32, sorted; `sizes`: int64, bytes of UTF-8.
    """

    def __init__(
        self, shards: Sequence[Path], dropped: Collection[str] = frozenset(), cuts: Cuts | None = None
    ) -> None:
        self._shards, self._cuts = tuple(shards), cuts
        without = np.sort(as_ids(list(dropped)))
        ids, sizes = [as_ids([])], [np.zeros(0, np.int64)]
        for batch in self._batches():
            ids.append(as_ids(batch["doc_id"].to_pylist()))
            lengths_here = pc.binary_length(batch["text"])  # type: ignore[attr-defined]
            sizes.append(lengths_here.to_numpy().astype(np.int64))
        every, lengths = np.concatenate(ids), np.concatenate(sizes)
        stays = ~among(every, without)
        order = np.flatnonzero(stays)[np.argsort(every[stays], kind="stable")]
        first = np.ones(len(order), np.bool_)
        first[1:] = every[order[1:]] != every[order[:-1]]
        order = order[first]
        self.ids: Ids = every[order]
        self.sizes: Numbers = lengths[order]
        self._numbers = np.full(len(every), ABSENT, np.int64)
        self._numbers[order] = np.arange(len(order))

    def __len__(self) -> int:
        return len(self.ids)

    def read(self, wanted: npt.NDArray[np.bool_] | None = None) -> Iterator[Texts]:
        """The texts, or those of the wanted documents, in the order of the shards."""
        row = 0
        for batch in self._batches():
            numbers = self._numbers[row : row + batch.num_rows]
            row += batch.num_rows
            here = numbers != ABSENT
            if wanted is not None:
                here &= wanted[numbers]
            if here.all():
                yield Texts(numbers, batch["text"])
            elif here.any():
                yield Texts(numbers[here], batch["text"].filter(pa.array(here)))

    def _batches(self) -> Iterator[Any]:
        for path in self._shards:
            for batch in batches(path, ["doc_id", "text"], rows=BATCH):
                if self._cuts is None:
                    yield batch
                else:
                    texts = self._cuts.applied(batch["doc_id"].to_pylist(), batch["text"])
                    yield batch.set_column(batch.schema.get_field_index("text"), "text", texts)


def as_ids(doc_ids: Sequence[str]) -> Ids:
    """As bytes."""
    return np.frombuffer(bytes.fromhex("".join(doc_ids)), "S32")


def as_names(ids: Ids) -> list[str]:
    """As 64 hex characters each."""
    data = ids.tobytes().hex()
    return [data[at : at + 64] for at in range(0, len(data), 64)]


def among(ids: Ids, others: Ids) -> npt.NDArray[np.bool_]:
    """The mask of ids that are among others, which are sorted."""
    if not len(others):
        return np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    found: npt.NDArray[np.bool_] = others[places] == ids
    return found
