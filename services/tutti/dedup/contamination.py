"""Contamination: documents that hold a share of the n-grams of an evaluation text.

An n-gram is so many words in a row, as near-duplicates know words: capitals, punctuation and spaces have no say. A text
of fewer words, but at least LEAST, is one n-gram of them all; a shorter one has none. A document that holds more than a
share of the different n-grams of one text is contaminated. Brown et al. (2020), appendix C, take n-grams of 13 words
(at least 8 where texts are short), of which any one is enough; Chowdhery et al. (2022), section 8, 70 % of those of 8.

Promises: found by 64-bit names, verified word by word; the answer for a document is a function of it and of the set of
evaluation texts. Memory is that of the evaluation texts and some 30 bytes for each of their words, at most LARGEST.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.dedup.grams import grams
from tutti.dedup.shingles import Names, spelled, words_of

WORDS = 13
LEAST = 8
LARGEST = 1 << 26
_SLOTS = 8  # of the filter, for each name: so many more do not need the search
_KEPT = 256


class TooManyTexts(Exception):
    """The evaluation texts hold more than LARGEST n-grams."""


@dataclass(frozen=True, slots=True, order=True)
class Contaminated:
    """`share` of the n-grams of the evaluation text `text` are in the document `doc_id`."""

    doc_id: str
    text: str
    share: float


@dataclass(frozen=True, slots=True)
class Sought:
    """The search: n-grams of `words` words, and the share of a text that is too much."""

    words: int = WORDS
    share: float = 0.0


class Evaluation:
    """The n-grams of evaluation texts, to be found in documents."""

    def __init__(self, texts: Iterable[pa.RecordBatch], sought: Sought) -> None:
        """`texts`: `doc_id` and `text`, in any order. Raises TooManyTexts, UnreadableTexts."""
        self._sought = sought
        self._ids: list[str] = []
        self._texts: list[str] = []
        self._counts: list[int] = []
        rows = [np.zeros((2, 0), np.uint64)]
        total = 0
        for batch in texts:
            names, owners = self._add(batch)
            rows.append(np.unique(np.stack([names, owners]), axis=1))
            total += rows[-1].shape[1]
            if total > LARGEST:
                raise TooManyTexts(
                    f"the evaluation texts have more than {LARGEST} n-grams of words; expected at most so many: leave "
                    "some out of dedup.decontaminate.path"
                )
        names, owners = np.concatenate(rows, axis=1)
        order = np.argsort(names, kind="stable")
        self._owners = owners[order].astype(np.int64)
        self._names, self._begins = np.unique(names[order], return_index=True)
        self._begins = np.append(self._begins, len(names)).astype(np.int64)
        self._sizes = np.bincount(self._owners, minlength=len(self._ids))
        self._filter, self._shift = _filter(self._names)
        self._lengths = sorted(set(self._counts) - {0})
        self._grams_of = lru_cache(_KEPT)(self._grams)

    def _add(self, batch: pa.RecordBatch) -> tuple[Names, Names]:
        """The names of the n-grams of some texts, each with the number of its text."""
        count, first = self._sought.words, len(self._ids)
        words, bounds = words_of(batch["text"])
        sizes = np.diff(bounds)
        counts = np.where(sizes >= count, count, np.where(sizes >= min(LEAST, count), sizes, 0))
        owner_of = np.repeat(np.arange(len(sizes)), sizes)
        names, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        for each in np.unique(counts[counts > 0]).tolist():
            found, places = grams(words, bounds, each)
            here = owner_of[places]
            right = counts[here] == each
            names.append(found[right])
            owners.append((first + here[right]).astype(np.uint64))
        self._ids += batch["doc_id"].to_pylist()
        self._texts += batch["text"].to_pylist()
        self._counts += counts.tolist()
        return np.concatenate(names), np.concatenate(owners)

    def found(self, batch: pa.RecordBatch) -> list[Contaminated]:
        """The contaminated documents of a batch (`doc_id`, `text`), each with the text of which it holds most.

        Of texts with equal shares it is the one with the smallest id.
        """
        words, bounds = words_of(batch["text"])
        hits = [np.zeros((0, 3), np.int64)]
        for count in self._lengths:
            names, places = grams(words, bounds, count)
            maybe = np.flatnonzero(self._filter[names >> self._shift])
            known = np.searchsorted(self._names, names[maybe])
            known[known == len(self._names)] = 0
            hit = self._names[known] == names[maybe]
            first = places[maybe[hit]]
            documents = np.searchsorted(bounds, first, "right") - 1
            hits.append(np.stack([documents, known[hit], first - bounds[documents]], axis=1))
        rows = np.concatenate(hits)
        found = []
        for document in np.unique(rows[:, 0]).tolist():
            _, known, places = rows[rows[:, 0] == document].T
            best = self._best(str(batch["text"][document]), known, places)
            if best is not None:
                found.append(Contaminated(str(batch["doc_id"][document]), *best))
        return found

    def _best(self, text: str, known: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> tuple[str, float] | None:
        """The evaluation text of which a document holds most, where that is enough; names are confirmed by words."""
        owners, counts = np.unique(
            np.concatenate([self._owners[self._begins[each] : self._begins[each + 1]] for each in np.unique(known)]),
            return_counts=True,
        )
        shares = counts / self._sizes[owners]
        enough = shares > self._sought.share
        candidates = sorted(
            zip(
                (-shares[enough]).tolist(),
                (self._ids[each] for each in owners[enough]),
                owners[enough].tolist(),
                strict=True,
            )
        )
        words = spelled(text.encode()) if candidates else []
        best: tuple[float, str] | None = None
        for less, name, owner in candidates:
            if best is not None and best <= (less, name):
                break
            count, sought = self._counts[owner], self._grams_of(owner)
            here = {tuple(words[at : at + count]) for at in places.tolist()}
            share = len(here & sought) / len(sought)
            if share > self._sought.share:
                best = min(best or (0.0, ""), (-share, name))
        return None if best is None else (best[1], -best[0])

    def _grams(self, owner: int) -> frozenset[tuple[bytes, ...]]:
        words, count = spelled(self._texts[owner].encode()), self._counts[owner]
        return frozenset(tuple(words[at : at + count]) for at in range(len(words) - count + 1))


def _filter(names: Names) -> tuple[npt.NDArray[np.bool_], np.uint64]:
    """The prefixes of names that exist, and the shift that turns a name into its prefix."""
    bits = max(int(_SLOTS * len(names)).bit_length(), 1)
    found = np.zeros(1 << bits, np.bool_)
    shift = np.uint64(64 - bits)
    found[names >> shift] = True
    return found, shift
