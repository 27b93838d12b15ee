"""The index: the longest spans of a text that stand word for word in a dataset, and where.

Promises: a span is told when no longer one around it stands there too; what is told of it (how often, where) depends on
the dataset alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tutti.corpus.spans.indexfile import Header, IndexFile
from tutti.corpus.spans.searching import UNKNOWN, Text
from tutti.native.arrays import np
from tutti.records.errors import CorpusError

LEAST = 8
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A place of a dataset: the `offset`-th token of a document."""

    doc_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class SpanMatch:
    """Tokens start … end - 1 of a query stand `count` times in the dataset; `examples` are some of those places."""

    start: int
    end: int
    count: int
    examples: tuple[Occurrence, ...]


class Index:
    """Answers from an open file; any number of threads may ask."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self._text = Text(file.tokens, file.suffixes, file.header.eos)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map the file; raises UnsupportedFormat or CorruptShard when its header does not hold."""
        return cls(IndexFile(path))

    @property
    def header(self) -> Header:
        return self._file.header

    def verify(self) -> None:
        """Read every byte; raises CorruptShard naming the section that does not hold."""
        self._file.verify()

    def spans(self, tokens: Sequence[int], *, least: int = LEAST, examples: int = EXAMPLES) -> list[SpanMatch]:
        """The maximal spans of at least `least` tokens, by start, each with at most `examples` of its places.

        Places come in the order of what follows the span there. A token that the vocabulary lacks, and the end-of-text
        token, are in no span. Raises CorpusError for `least` < 1.
        """
        if least < 1:
            raise CorpusError(f"least is {least}, expected at least 1")
        query = np.array(tokens, np.int64)
        header = self.header
        query[(query < 0) | (query >= header.vocabulary) | (query == header.eos)] = UNKNOWN
        ends = self._text.ends(query)
        starts = np.flatnonzero((ends - np.arange(len(ends)) >= least) & (np.diff(ends, prepend=0) > 0))
        first, behind = self._text.ranges(query, starts, ends[starts])
        return [
            SpanMatch(
                start=int(start),
                end=int(ends[start]),
                count=int(last - at),
                examples=tuple(map(self._occurrence, self._file.suffixes[at : min(last, at + examples)].tolist())),
            )
            for start, at, last in zip(starts, first, behind, strict=True)
        ]

    def _occurrence(self, position: int) -> Occurrence:
        document = int(np.searchsorted(self._file.starts, np.uint32(position), side="right")) - 1
        return Occurrence(self._file.doc_id(document), position - int(self._file.starts[document]))
