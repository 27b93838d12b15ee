"""Lines that are cut out of the texts of the documents that stay: repeated ones, or paragraphs, and what C4 removes.

Promises: a function of the set of documents, whatever their files, order, cut and workers. Units are counted over all
documents before any is cut: what one loses changes nothing for another. They are compared by 128 bits, one half after
the other: what one half finds repeated is looked at by the other. Memory is about 70 bytes a document, and the longest
text; documents are read four times: their ids, all texts, then twice those with repeated units, or the second time all
where C4 has a say. For C4 alone they are read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus import arrays
from tutti.corpus.counts.cleaning import Judged, judged
from tutti.corpus.threads import in_threads
from tutti.dedup.components import Documents
from tutti.dedup.losses import Loss, losses
from tutti.dedup.names import Names
from tutti.dedup.ranges import Ranges
from tutti.dedup.repeats import LOWER, SHIFT, Common, Places, commonest, repeated
from tutti.dedup.rows import RUN_ROWS, RowSorter
from tutti.dedup.shards import Texts, reader
from tutti.dedup.units import Unit, Units, none, said, units

MOST = 6
EXAMPLES, EXAMPLE_CHARACTERS = 5, 100
Choice = Callable[[Documents], npt.NDArray[np.bool_]]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class LineLimits:
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
    """`path` is the file of cuts (tutti.corpus.documents.cuts): `units` of `documents` that stay, `bytes` in all.

    `short`: documents that cuts left too short, by id, with their remaining characters; `bare`: those of which the
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

    @classmethod
    def of(
        cls,
        path: Path,
        lost: Loss,
        short: Iterable[tuple[str, int]],
        examples: Iterable[Example],
        bare: Iterable[str],
    ) -> Lines:
        """Lines of a file of cuts, with `short` and `bare` in any order."""
        sizes = (lost.documents, lost.units, lost.bytes)
        return cls(path, *sizes, tuple(sorted(short)), tuple(examples), lost.lines, tuple(sorted(bare)))


def find(
    own: Texts,
    wanted: LineLimits | None,
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

    def __init__(self, ordered: RowSorter, path: Path) -> None:
        with path.open("wb") as file:
            for block in ordered.blocks():
                arrays.append(file, block[:, 0])
        self._places: Places = np.memmap(path, np.uint64, "r") if path.stat().st_size else np.zeros(0, np.uint64)

    def among(self, documents: Documents) -> npt.NDArray[np.bool_]:
        """The documents that have any."""
        least = documents.astype(np.uint64) << SHIFT
        found = np.searchsorted(self._places, least) < np.searchsorted(self._places, least | LOWER, "right")
        return np.asarray(found)

    def holds(self, places: Places) -> npt.NDArray[np.bool_]:
        """The places among these that are here."""
        at = np.searchsorted(self._places, places)
        held = at < len(self._places)
        held[held] = self._places[at[held]] == places[held]
        return held


class _Search:
    def __init__(
        self, own: Texts, wanted: LineLimits | None, scratch: Path, clean: bool, workers: int, run_rows: int
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
        return units_of(texts, self._wanted)

    def _parts(self, texts: pa.Array) -> tuple[Units, Judged | None]:
        return self._units(texts), judged(texts) if self._clean else None

    def _counted(self, half: int, among: _Places | None) -> RowSorter:
        """Rows (half of a unit's name, its place), of all units or of those in `among`."""
        found = RowSorter(self._scratch / f"units-{half}", run_rows=self._run_rows)
        every = among.among if among else lambda documents: np.ones(len(documents), np.bool_)
        for documents, _, made in self._each(every, self._units):
            places = _places(documents, made)
            wanted = made.counted & among.holds(places) if among else made.counted
            found.add(made.names[wanted, half], places[wanted])
        return found

    def _placed(self, name: str, found: Iterator[Places]) -> _Places:
        ordered = RowSorter(self._scratch / name, run_rows=self._run_rows)
        for places in found:
            ordered.add(places, np.zeros_like(places))
        placed = _Places(ordered, self._scratch / f"{name}.places")
        ordered.remove()
        return placed

    def _cut(self, places: _Places, examples: tuple[Example, ...]) -> Lines:
        ranges = Ranges(self._scratch, run_rows=self._run_rows)
        seen = np.zeros(len(self._names), np.bool_)
        lost = Loss()
        short, bare = list[tuple[str, int]](), list[str]()

        def some(documents: Documents) -> npt.NDArray[np.bool_]:
            return ~seen[documents] & (self._clean | places.among(documents))

        for documents, texts, (made, lines) in self._each(some, self._parts):
            new = ~seen[documents]  # what lies in two shards is cut once
            seen[documents] = True
            found = losses(texts, new, made, places.holds(_places(documents, made)), lines)
            cut = found.cut(least_left(self._wanted))
            bare += self._names.ids(documents[cut.bare]).to_pylist()
            short += zip(self._names.ids(documents[cut.short]).to_pylist(), cut.left[cut.short].tolist(), strict=True)
            ranges.add(documents[cut.texts], cut.ranges)
            lost += cut.lost
        return Lines.of(ranges.write(self._names), lost, short, examples, bare)

    def _examples(self, common: list[Common]) -> tuple[Example, ...]:
        wanted, told = np.array([each.place for each in common], np.uint64), dict[int, str]()
        for documents, texts, made in self._each(lambda some: np.isin(some, wanted >> SHIFT), self._units):
            places = _places(documents, made)
            for at in np.flatnonzero(np.isin(places, wanted)).tolist():
                told[int(places[at])] = example(texts, made, at)
        return tuple(Example(told[each.place], each.documents) for each in common)


def units_of(texts: pa.Array, wanted: LineLimits | None) -> Units:
    """The units of texts that are looked at."""
    return units(texts, wanted.unit, wanted.least) if wanted else none(len(texts))


def least_left(wanted: LineLimits | None) -> int:
    """The minimum number of characters that must be left of a document that loses units."""
    return wanted.left if wanted else 1


def numbers(made: Units) -> npt.NDArray[np.int64]:
    """The number of each unit in its text."""
    return np.arange(len(made.spans)) - np.repeat(made.bounds[:-1], np.diff(made.bounds))


def example(texts: pa.Array, made: Units, at: int) -> str:
    """The text, or its beginning, of the unit at this place among those of texts."""
    text = texts[int(np.searchsorted(made.bounds, at, "right")) - 1].as_py().encode()
    begin, end = made.spans[at]
    return said(text[begin:end])[:EXAMPLE_CHARACTERS]


def _places(documents: Documents, made: Units) -> Places:
    """The places of the units of documents."""
    return np.repeat(documents, np.diff(made.bounds)).astype(np.uint64) << SHIFT | numbers(made).astype(np.uint64)
