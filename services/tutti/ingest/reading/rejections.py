"""Rejections: why a page, or a record of a file, did not become a document.

Each becomes one document or one rejection; nothing is left out without a reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

from tutti.corpus.files.budgets import Spent
from tutti.ingest.reading.filenames import RECORDS, unpacked
from tutti.records.canonical import canonical_json

NAMED_REJECTIONS = 100
"""Maximum number of rejections of one file for one reason that are listed; the others are counted."""


class Reason(StrEnum):
    """The reason why a page was left out."""

    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    NOT_A_FILE = "not_a_file"  # a socket, a pipe, a device
    LINK_OUTSIDE = "link_outside"  # leads out of the input folder
    LINK_BROKEN = "link_broken"  # leads nowhere, or in a circle
    LINK_REPEATED = "link_repeated"  # leads to a folder that is read at its own place
    HIDDEN = "hidden"  # a file or a folder whose name begins with a dot
    DATA_DIRECTORY = "data_directory"  # a folder in which a platform keeps what it makes
    NAME_NOT_UNICODE = "name_not_unicode"
    NAME_TAKEN = "name_taken"  # the same name in another Unicode form came before
    PDF = "pdf"  # a document that is not read, to be converted first
    BINARY = "binary"
    TABLE = "table"  # rows of cells, as in a .csv
    UNDECODABLE = "undecodable"
    TOO_DEEP = "too_deep"  # elements so deep, or so many, or with so many attributes, that parsing would not end
    EMPTY = "empty"  # no text was left
    MALFORMED = "malformed"  # a record that is not of the form of its file
    NO_TEXT = "no_text"  # a record, or a file of records, without the field of texts
    DAMAGED = "damaged"  # cut short, or what cannot be decompressed
    NOT_OK = "not_ok"  # what a server answered was no success
    REPEATED = "repeated"  # the same source with the same text came before


@dataclass(frozen=True, slots=True)
class Rejection:
    """`path` is relative to the input root; `detail` says what was seen and never names the machine."""

    path: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Rejections:
    """The rejections: all counted, and, up to a limit, listed in a file: a list in canonical JSON."""

    path: Path
    counts: Counter[Reason]
    first: Rejection | None

    def by_reason(self) -> list[tuple[str, int]]:
        return sorted((reason.value, count) for reason, count in self.counts.items())


_OF_THE_FILE = frozenset({Reason.MALFORMED, Reason.TOO_LARGE, Reason.DAMAGED})
"""Reasons that say nothing about the field of texts."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A file of records none of which has a text: how many, and the first rejection."""

    path: str
    records: int
    first: Rejection


def has_no_text(record: object) -> bool:
    """True for the rejection of a record that does not have the field of texts, or cannot be read at all."""
    return isinstance(record, Rejection) and record.reason in {Reason.NO_TEXT, *_OF_THE_FILE}


class DroppedFiles:
    """Finds the files of records of which no record has the field of texts."""

    def __init__(self) -> None:
        self._found: dict[str, Dropped | None] = {}

    def see(self, file: str, rejection: Rejection | None) -> None:
        """Take the result of a record; None if it has a text."""
        if not unpacked(file).endswith(RECORDS):
            return
        if rejection is not None and rejection.reason in _OF_THE_FILE:
            return
        known = self._found.get(file)
        if rejection is None or rejection.reason is not Reason.NO_TEXT or (known is None and file in self._found):
            self._found[file] = None
        else:
            first = known.first if known else rejection
            self._found[file] = Dropped(file, (known.records if known else 0) + 1, first)

    def files(self) -> list[Dropped]:
        """Files with several records, or one whose columns hold no text; one object alone may be no record."""
        return [
            each
            for path, each in sorted(self._found.items())
            if each is not None and (each.records > 1 or path.lower().endswith(".parquet"))
        ]


class RejectionFile:
    """Rejections as they come, file by file, on their way to a file; memory is what one file of many has, by reason."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("wb")
        self._counts = Counter[Reason]()
        self._first: Rejection | None = None
        self._of = ""
        self._of_file = Counter[Reason]()
        self._more: list[Rejection] = []

    def __enter__(self) -> RejectionFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if kind is None:
                self._settle()
                for each in self._more:
                    self._name(each)
                self._file.write(b"]" if self._first else b"[]")

    def add(self, file: str, rejection: Rejection) -> None:
        """`file`: of the input, in which it lies, or which it is."""
        if file != self._of:
            self._settle()
            self._of = file
        self._counts[rejection.reason] += 1
        self._of_file[rejection.reason] += 1
        if self._of_file[rejection.reason] <= NAMED_REJECTIONS:
            self._name(rejection)

    def told(self) -> Rejections:
        """Once it is closed."""
        return Rejections(self._path, self._counts, self._first)

    def _name(self, rejection: Rejection) -> None:
        self._file.write((b"," if self._first else b"[") + canonical_json(asdict(rejection)))
        self._first = self._first or rejection

    def _settle(self) -> None:
        """Record the number of unlisted rejections of a file that was read."""
        for reason, count in self._of_file.items():
            if (rest := count - NAMED_REJECTIONS) > 0:
                self._more.append(Rejection(self._of, reason, f"{rest:,} more of this file, which are not named"))
        self._of_file.clear()


def over_budget(source: str, place: str, spent: Spent) -> Rejection:
    """The rejection of the rest of a file."""
    return Rejection(source, Reason.TOO_LARGE, f"{spent}; behind {place} nothing was read: split or repair the file")
