"""Losses: what texts lose with repeated units and with lines that C4 removes, and what is left of them. Pure."""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tutti.corpus.counts.cleaning import Judged
from tutti.corpus.texts import buffers
from tutti.dedup.units import Numbers, Parts, Units, characters, cut, holders

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Losses:
    """The cut parts of consecutive texts: `ranges`, int64 [n, 2], are cut out of `texts`, int64 [n].

    Of each text: `units` that are repeated, `lines` that are cleaned away, whether these are all (`bare`), and the
    characters that are `left`, 0 where none of its parts is.
    """

    texts: Numbers
    ranges: Numbers
    units: Numbers
    lines: Numbers
    bare: Flags
    left: Numbers

    def cut(self, least: int) -> Cut:
        """Return the cut without texts that are too short: below `least` if repeated units were cut, else empty."""
        goes = np.zeros(len(self.left), np.bool_)
        goes[self.texts] = True
        goes &= self.left < np.where(self.units, least, 1)
        stay = ~goes[self.texts]
        texts, ranges = self.texts[stay], self.ranges[stay]
        return Cut(
            texts,
            ranges,
            short=np.flatnonzero(goes & ~self.bare),
            bare=np.flatnonzero(goes & self.bare),
            left=self.left,
            lost=Loss(
                documents=len(np.unique(texts)),
                units=int(self.units[~goes].sum()),
                lines=int(self.lines[~goes].sum()),
                bytes=int((ranges[:, 1] - ranges[:, 0]).sum()),
            ),
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """The amount that is cut, and the number of kept documents that lose it: repeated units, and cleaned lines."""

    documents: int = 0
    units: int = 0
    lines: int = 0
    bytes: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class Cut:
    """The cuts of consecutive texts: `ranges` are cut out of `texts`, as in Losses, which makes `lost`.

    The others go: those that are too `short`, or `bare`; of each text so many characters are `left`.
    """

    texts: Numbers
    ranges: Numbers
    short: Numbers
    bare: Numbers
    left: Numbers
    lost: Loss


def losses(texts: pa.Array, chosen: Flags, made: Units, repeated: Flags, judged: Judged | None) -> Losses:
    """The losses of the chosen texts: repeated units, and lines that are not kept."""
    repeated = repeated & _of_each(made, chosen)
    parts: Parts
    if judged is None:
        parts, removed, gone = made, np.zeros_like(repeated), repeated
    else:
        parts, removed = judged, ~judged.kept & _of_each(judged, chosen)
        gone = removed | np.isin(holders(judged, made), np.flatnonzero(repeated))
    held, found = cut(parts, gone)
    lines = _counts(parts, removed)
    return Losses(
        texts=held,
        ranges=found,
        units=_counts(made, repeated),
        lines=lines,
        bare=(lines > 0) & (lines == np.diff(parts.bounds)),
        left=_left(texts, parts, gone, held, found),
    )


def _of_each(parts: Parts, flags: Flags) -> Flags:
    """Flags of texts as those of their parts."""
    return np.repeat(flags, np.diff(parts.bounds))


def _counts(parts: Parts, flags: Flags) -> Numbers:
    """The number of flagged parts of each text."""
    before = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(np.diff(before[parts.bounds]))


def _left(texts: pa.Array, parts: Parts, gone: Flags, held: Numbers, ranges: Numbers) -> Numbers:
    """The number of characters left of each text without these ranges; 0 if none of its parts is left."""
    data, offsets = buffers(texts)
    left = characters(data, np.stack([offsets[:-1], offsets[1:]], axis=1))
    np.subtract.at(left, held, characters(data, ranges + offsets[held][:, None]))
    return np.where(_counts(parts, ~gone) > 0, left, 0)
