"""Languages: how many tokens the texts of each become.

Promises: a function of the set of documents, of what was told of them and of the tokenizer. Memory is eight bytes a
document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutti.corpus.rows import batches
from tutti.native.arrays import np
from tutti.tokenization.documents import Documents, Ids, Numbers, among, as_ids

UNDETERMINED = "und"


@dataclass(frozen=True, slots=True)
class Language:
    """The texts of one language: `code` of ISO 639, UTF-8 bytes, and tokens without the end of each text."""

    code: str
    documents: int
    text_bytes: int
    tokens: int


def by_language(documents: Documents, lengths: Numbers, measures: Sequence[Path]) -> tuple[Language, ...]:
    """The languages of all documents, the one with most bytes first; none without `measures`.

    `lengths`: int64 [documents], tokens of each. `measures`: Parquet files with the columns `doc_id` and `language`; a
    document that is in none of them is of no determined language.
    """
    if not measures:
        return ()
    codes = {UNDETERMINED: 0}
    spoken = np.zeros(len(documents), np.int64)
    for ids, told in _told(measures):
        known = among(ids, documents.ids)
        here = np.array([codes.setdefault(each, len(codes)) for each in told], np.int64)
        spoken[np.searchsorted(documents.ids, ids[known])] = here[known]
    counts = np.bincount(spoken, minlength=len(codes))
    sums = []
    for amounts in (documents.sizes, lengths):
        total = np.zeros(len(codes), np.int64)
        np.add.at(total, spoken, amounts)
        sums.append(total.tolist())
    found = [Language(*each) for each in zip(codes, counts.tolist(), *sums, strict=True) if each[1]]
    return tuple(sorted(found, key=lambda each: (-each.text_bytes, each.code)))


def _told(measures: Sequence[Path]) -> Iterator[tuple[Ids, list[str]]]:
    for path in measures:
        for batch in batches(path, ["doc_id", "language"]):
            yield as_ids(batch["doc_id"].to_pylist()), batch["language"].to_pylist()
