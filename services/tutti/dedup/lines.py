"""Lines that are cut out of the texts of the documents that stay: repeated ones, or paragraphs, and what C4 removes.

Promises: a function of the set of documents, whatever their files, order, cut and workers. Units are counted over all
documents before any is cut: what one loses changes nothing for another. They are compared by 128 bits, one half after
the other: what one half finds repeated is looked at by the other. Memory is about 70 bytes a document, and the longest
text; documents are read four times: their ids, all texts, then twice those with repeated units, or the second time all
where C4 has a say. For C4 alone they are read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus import arrays, cuts
from tutti.corpus.counts.cleaning import Judged, judged
from tutti.corpus.threads import in_threads
from tutti.dedup.components import Documents
from tutti.dedup.externalsort import RUN_ROWS, ExternalSort, Rows
from tutti.dedup.losses import losses
from tutti.dedup.names import Names
from tutti.dedup.repeats import SHIFT, Common, Places, commonest, repeated
from tutti.dedup.shards import Texts, reader
from tutti.dedup.units import Unit, Units, none, said, units

MOST = 6
EXAMPLES, EXAMPLE_CHARACTERS = 5, 100
Choice = Callable[[Documents], npt.NDArray[np.bool_]]
Made = TypeVar("Made")
_ROWS = 1 << 16
LOWER = np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A unit that more than `most` documents hold is cut out of all but the `keep` with the smallest ids.

    Units of fewer than `least` characters stay. A document that is cut and has fewer than `left` characters then goes.
    `most` is 6 for Llama 3 (Dubey et al. 2024, section 3.1.1), which cuts all of them; CCNet (Wenzek et al. 2020)
    keeps one of each: `most` and `keep` 1. `least` and `left` are our own.
    """

    unit: Unit = Unit.LINE
    most: int = MOST
    keep: int = 0
    least: int = 1
    left: int = 100


@dataclass(frozen=True, slots=True)
class Example:
    """A unit that was cut, and how many documents held it."""

    text: str
    documents: int


@dataclass(frozen=True, slots=True)
class Lines:
    """`path` is the file of cuts (tutti.corpus.cuts): `units` of `documents` that stay, `bytes` in all.

    `short`: documents of which too little is left, by id, and how many characters that is; `bare`: those of which the
    cleaning keeps no line; they are in no other number. `cleaned`: lines that C4 removes from those that stay; one that
    is repeated too is in both numbers.
    """

    path: Path
    documents: int
    units: int
    bytes: int
    short: tuple[tuple[str, int], ...]
    examples: tuple[Example, ...]
    cleaned: int = 0
    bare: tuple[str, ...] = ()


def find(
    own: Texts,
    wanted: Wanted | None,
    scratch: Path,
    *,
    clean: bool = False,
    workers: int = 1,
    run_rows: int = RUN_ROWS,
) -> Lines:
    """Cut the documents: by what is repeated, none of it without `wanted`, and by what C4 removes for `clean` ones.

    `scratch` is an empty folder: 16 bytes a unit, twice, those that are repeated, and 16 bytes for each range.
    """
    return _Search(own, wanted, scratch, clean, workers, run_rows).lines()


class _Places:
    """Places of units, in order, in a file."""

    def __init__(self, ordered: ExternalSort, path: Path) -> None:
        with path.open("wb") as file:
            for block in ordered.blocks():
                arrays.append(file, block[:, 0])
        self._places: Places = np.memmap(path, np.uint64, "r") if path.stat().st_size else np.zeros(0, np.uint64)

    def among(self, documents: Documents) -> npt.NDArray[np.bool_]:
        """Which documents have any."""
        least = documents.astype(np.uint64) << SHIFT
        found = np.searchsorted(self._places, least) < np.searchsorted(self._places, least | LOWER, "right")
        return np.asarray(found)

    def holds(self, places: Places) -> npt.NDArray[np.bool_]:
        """Which of some places are here."""
        at = np.searchsorted(self._places, places)
        held = at < len(self._places)
        held[held] = self._places[at[held]] == places[held]
        return held


class _Search:
    def __init__(
        self, own: Texts, wanted: Wanted | None, scratch: Path, clean: bool, workers: int, run_rows: int
    ) -> None:
        self._read = reader(own.shards, without=own.without)
        self._wanted, self._scratch, self._clean = wanted, scratch, clean
        self._workers, self._run_rows = workers, run_rows
        self._names = Names(batch["doc_id"] for batch in self._read(["doc_id"]))

    def lines(self) -> Lines:
        if self._wanted is None:
            return self._cut(self._placed("repeated", iter(())), ())
        most, keep = self._wanted.most, self._wanted.keep
        first = self._counted(0, None)
        among = self._placed("candidates", repeated(first.blocks(), most=most, keep=0))
        first.remove()
        second = self._counted(1, among)
        places = self._placed("repeated", repeated(second.blocks(), most=most, keep=keep))
        examples = self._examples(commonest(second.blocks(), EXAMPLES, most=most))
        second.remove()
        return self._cut(places, examples)

    def _each(self, chosen: Choice, made: Callable[[pa.Array], Made]) -> Iterator[tuple[Documents, pa.Array, Made]]:
        """Documents that are chosen, their texts and what is made of these, a few at a time."""

        def of(batch: pa.RecordBatch) -> tuple[Documents, pa.Array, Made]:
            documents, texts = self._names.documents(batch["doc_id"]), batch["text"]
            if not (here := chosen(documents)).all():
                documents, texts = documents[here], texts.filter(pa.array(here))
            return documents, texts, made(texts)

        return in_threads(of, self._read(["doc_id", "text"]), self._workers)

    def _units(self, texts: pa.Array) -> Units:
        return units(texts, self._wanted.unit, self._wanted.least) if self._wanted else none(len(texts))

    def _parts(self, texts: pa.Array) -> tuple[Units, Judged | None]:
        return self._units(texts), judged(texts) if self._clean else None

    def _counted(self, half: int, among: _Places | None) -> ExternalSort:
        """Rows (half of a unit's name, its place), of all units or of those in `among`."""
        found = ExternalSort(self._scratch, f"units-{half}", run_rows=self._run_rows)
        every = among.among if among else lambda documents: np.ones(len(documents), np.bool_)
        for documents, _, made in self._each(every, self._units):
            places = _places(documents, made)
            wanted = made.counted & among.holds(places) if among else made.counted
            found.add(made.names[wanted, half], places[wanted])
        return found

    def _placed(self, name: str, found: Iterator[Places]) -> _Places:
        ordered = ExternalSort(self._scratch, name, run_rows=self._run_rows)
        for places in found:
            ordered.add(places, np.zeros_like(places))
        placed = _Places(ordered, self._scratch / f"{name}.places")
        ordered.remove()
        return placed

    def _cut(self, places: _Places, examples: tuple[Example, ...]) -> Lines:
        ranges = ExternalSort(self._scratch, "ranges", run_rows=self._run_rows)
        seen = np.zeros(len(self._names), np.bool_)
        documents = count = cleaned = size = 0
        short, bare = list[tuple[str, int]](), list[str]()

        def cut(documents: Documents) -> npt.NDArray[np.bool_]:
            return ~seen[documents] & (self._clean | places.among(documents))

        for some, texts, (made, lines) in self._each(cut, self._parts):
            new = ~seen[some]  # what lies in two shards is cut once
            seen[some] = True
            lost = losses(texts, new, made, places.holds(_places(some, made)), lines)
            goes = lost.short(self._wanted.left if self._wanted else 1)
            bare += self._names.ids(some[goes & lost.bare]).to_pylist()
            little = goes & ~lost.bare
            short += zip(self._names.ids(some[little]).to_pylist(), lost.left[little].tolist(), strict=True)
            stay = ~goes[lost.texts]
            held, (begins, ends) = lost.texts[stay], lost.ranges[stay].astype(np.uint64).T
            ranges.add(some[held].astype(np.uint64) << SHIFT | begins, ends)
            documents += len(np.unique(held))
            count += int(lost.units[~goes].sum())
            cleaned += int(lost.lines[~goes].sum())
            size += int((ends - begins).sum())
        path = self._scratch / "cuts.parquet"
        cuts.write(self._rows(ranges.blocks()), path)
        return Lines(path, documents, count, size, tuple(sorted(short)), examples, cleaned, tuple(sorted(bare)))

    def _examples(self, common: list[Common]) -> tuple[Example, ...]:
        wanted, told = np.array([each.place for each in common], np.uint64), dict[int, str]()
        for documents, texts, made in self._each(lambda some: np.isin(some, wanted >> SHIFT), self._units):
            places = _places(documents, made)
            for at in np.flatnonzero(np.isin(places, wanted)).tolist():
                text = texts[int(np.searchsorted(made.bounds, at, "right")) - 1].as_py().encode()
                begin, end = made.spans[at]
                told[int(places[at])] = said(text[begin:end])[:EXAMPLE_CHARACTERS]
        return tuple(Example(told[each.place], each.documents) for each in common)

    def _rows(self, blocks: Iterator[Rows]) -> Iterator[pa.RecordBatch]:
        for rows in _even(blocks, _ROWS):
            documents, begins = (rows[:, 0] >> SHIFT).astype(np.int64), (rows[:, 0] & LOWER).astype(np.int64)
            columns = [self._names.ids(documents), pa.array(begins), pa.array(rows[:, 1].astype(np.int64))]
            yield pa.record_batch(columns, schema=cuts.SCHEMA)


def _places(documents: Documents, made: Units) -> Places:
    """The places of the units of documents."""
    counts = np.diff(made.bounds)
    numbers = np.arange(len(made.spans)) - np.repeat(made.bounds[:-1], counts)
    return np.repeat(documents, counts).astype(np.uint64) << SHIFT | numbers.astype(np.uint64)


def _even(blocks: Iterator[Rows], size: int) -> Iterator[Rows]:
    """The same rows in blocks of `size`, the last one of what remains: how they were cut before leaves no trace."""
    held = np.zeros((0, 2), np.uint64)
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) >= size:
            yield held[:size]
            held = held[size:]
    if len(held):
        yield held
