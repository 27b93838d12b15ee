"""Cuts: what is left out of the texts of documents that stay, as a file.

A document keeps its name, which is that of the page as it was read; whoever reads its text to train on it leaves these
ranges of bytes out. Memory of an opened file is about 40 bytes a document that is in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tutti.corpus import arrays
from tutti.corpus.rows import batches, write_rows
from tutti.native.arrays import np, npt, pa, pc
from tutti.records.errors import UnsupportedFormat


@cache
def schema() -> pa.Schema:
    """Return the columns of cuts, sorted by `doc_id` and `begin`.

    Bytes begin … end - 1 of its UTF-8 are left out. Ranges of a document do not meet.
    """
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("begin", pa.int64(), nullable=False),
            pa.field("end", pa.int64(), nullable=False),
        ]
    )


_ROWS = 1 << 16


def write(rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write rows of `schema`, which come in its order."""
    write_rows(schema(), rows, path)


def sizes(data: bytes) -> dict[str, int]:
    """By document of a file how many bytes are left out; its rows are not held at once. Raises UnsupportedFormat."""
    found: dict[str, int] = {}
    with _readable():
        for batch in batches(io.BytesIO(data), rows=_ROWS):
            sized = batch.append_column("size", pc.subtract(batch["end"], batch["begin"]))  # type: ignore[attr-defined]
            each = pa.table(sized).group_by("doc_id").aggregate([("size", "sum")])
            for doc_id, size in zip(each["doc_id"].to_pylist(), each["size_sum"].to_pylist(), strict=True):
                found[doc_id] = found.get(doc_id, 0) + size  # a document may lie in two batches
    return found


@contextmanager
def _readable() -> Iterator[None]:
    """Raises UnsupportedFormat for what is in a file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, OSError) and error.errno:  # of the machine, such as a full disk, and not of the file
            raise
        raise UnsupportedFormat(f"not a file of cuts: {error}; run the stage again") from error


class Cuts:
    """An opened file, whose bytes were compared with a digest before."""

    def __init__(self, path: Path, scratch: Path) -> None:
        """The ranges are laid in a file in `scratch`, and mapped. Raises UnsupportedFormat."""
        ids, counts, kept = [_as_ids([])], [np.zeros(0, np.int64)], scratch / "cuts.ranges"
        with _readable(), kept.open("wb") as ranges:
            for batch in batches(path, rows=_ROWS):
                arrays.append(ranges, np.stack([batch["begin"].to_numpy(), batch["end"].to_numpy()], axis=1))
                found = batch["doc_id"].value_counts()
                ids.append(_as_ids(found.field("values").to_pylist()))
                counts.append(found.field("counts").to_numpy())
        every, each = np.concatenate(ids), np.concatenate(counts)
        new = np.ones(len(every), np.bool_)
        new[1:] = every[1:] != every[:-1]  # a document may lie in two batches
        self._ids = every[new]
        begins = np.concatenate([[0], np.cumsum(each)])
        self._bounds = np.append(begins[:-1][new], begins[-1])
        size = kept.stat().st_size
        self._ranges: npt.NDArray[np.int64] = (
            np.memmap(kept, np.int64, "r").reshape(-1, 2) if size else np.zeros((0, 2), np.int64)
        )

    def applied(self, doc_ids: Sequence[str], texts: pa.Array) -> pa.Array:
        """The texts of these documents without what is cut, of the type of `texts`."""
        wanted = _as_ids(doc_ids)
        places = np.minimum(np.searchsorted(self._ids, wanted), max(len(self._ids) - 1, 0))
        here = self._ids[places] == wanted if len(self._ids) else np.zeros(len(wanted), np.bool_)
        if not here.any():
            return texts
        data = texts.cast(pa.large_binary()).to_pylist()
        for row in np.flatnonzero(here).tolist():
            begin, end = self._bounds[places[row] : places[row] + 2]
            data[row] = without(data[row], self._ranges[begin:end].tolist())
        return pa.array(data, pa.large_binary()).cast(texts.type)


def without(text: bytes, ranges: Iterable[Sequence[int]]) -> bytes:
    """A text without ranges of its bytes, which come in order."""
    parts, at = [], 0
    for begin, end in ranges:
        parts.append(text[at:begin])
        at = end
    return b"".join([*parts, text[at:]])


def _as_ids(doc_ids: Sequence[str]) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(bytes.fromhex("".join(doc_ids)), "S32")
