"""Duplicates: the documents that dedup left out, each with the one that stands for it, as a file.

The file is Parquet with the columns of `schema`, sorted by `doc_id`; version 0.1 wrote JSON, which is read too. Whoever
reads it has compared its bytes with the digest in its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from pathlib import Path

from tutti.corpus.rows import read_rows, write_rows
from tutti.native.arrays import pa
from tutti.records.canonical import parse_json
from tutti.records.errors import CorpusError, UnsupportedFormat

LEAST_SIMILARITY = 0.7
"""The lowest threshold of near-duplicates; of pairs that are less similar, bands find too few: .92 at .7, .62 at .6."""
THRESHOLDS = f"0 for none, or a similarity from {LEAST_SIMILARITY} to 1: of what is less alike, too few are found"
"""The thresholds of `is_threshold`, for an error message."""


def is_threshold(similarity: float) -> bool:
    """True for 0, which finds no near-duplicates, and for a similarity at which nearly all are found."""
    return similarity == 0 or LEAST_SIMILARITY <= similarity <= 1


THROUGH_OTHERS = ", through others"
"""Behind the name of a document that is less similar than the threshold; others link the two."""


class How(StrEnum):
    """The reason why a document was dropped."""

    EXACT = "exact"  # another has the same text
    NEAR = "near"  # others have nearly the same
    EARLIER = "earlier"  # a document of an earlier dataset has the same
    EARLIER_NEAR = "earlier-near"  # or nearly the same
    CONTAMINATED = "contaminated"  # it holds n-grams of an evaluation text
    CONTAMINATED_NEAR = "contaminated-near"  # it is nearly the same as an evaluation text

    @property
    def contaminated(self) -> bool:
        return self in (How.CONTAMINATED, How.CONTAMINATED_NEAR)

    def detail(self, jaccard: float, kept: str) -> str:
        """A text that says what it is a duplicate of; `kept` names the document that stands for it."""
        if self is How.CONTAMINATED:
            return f"{jaccard:.0%} of the n-grams of the evaluation text {kept}"
        near = self in (How.NEAR, How.EARLIER_NEAR, How.CONTAMINATED_NEAR)
        alike = f", similarity {jaccard:.2f}" if jaccard else THROUGH_OTHERS
        return f"of {_WHOSE.get(self, '')}{kept}{alike if near else ''}"

    def fate(self, jaccard: float, kept: str) -> str:
        """The same as a sentence."""
        if self is How.CONTAMINATED:
            return f"left out: it holds {self.detail(jaccard, kept)}"
        near = f"a near-duplicate ({jaccard:.2f})" if jaccard else "a near-duplicate, through others,"
        alike = "a duplicate" if self in (How.EXACT, How.EARLIER) else near
        return f"dropped as {alike} of {_WHOSE.get(self, '')}{kept}"


_WHOSE = {
    How.EARLIER: "an earlier dataset's ",
    How.EARLIER_NEAR: "an earlier dataset's ",
    How.CONTAMINATED_NEAR: "the evaluation text ",
}


@cache
def schema() -> pa.Schema:
    """Return the columns of duplicates, sorted by `doc_id`.

    `kept` stands for `doc_id`; `jaccard` is the similarity to it, 1 for an equal text, 0 if that is below the threshold
    (others link the two); of `contaminated` it is the share of the evaluation text's n-grams that the document holds.
    """
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            pa.field("kept", pa.string(), nullable=False),
            pa.field("how", pa.string(), nullable=False),
            pa.field("jaccard", pa.float64(), nullable=False),
        ]
    )


def write(rows: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write rows of `schema`, which come sorted by `doc_id`."""
    write_rows(schema(), rows, path)


def decode(data: bytes) -> pa.Table:
    """The rows of a file. Raises UnsupportedFormat."""
    return _of_json(data) if data.startswith(b"[") else read_rows(schema(), data, "duplicates")


def _of_json(data: bytes) -> pa.Table:
    """Read the format of version 0.1: `[{"dropped": [...], "kept": ..., "text_digest": ...}]`."""
    try:
        clusters = parse_json(data)
        stands = {str(doc_id): str(each["kept"]) for each in clusters for doc_id in each["dropped"]}  # type: ignore[call-overload, index, union-attr]
    except (CorpusError, TypeError, KeyError) as error:
        raise UnsupportedFormat(f"not a list of duplicates: {error}; run the stage again") from error
    ids = sorted(stands)
    columns = [ids, [stands[each] for each in ids], [How.EXACT.value] * len(ids), [1.0] * len(ids)]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, schema(), strict=True)], schema=schema()
    )
