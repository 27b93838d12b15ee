"""Lines of log files: read in the order of time, chosen, and waited for.

Promises: a file of any size is read a line at a time; a line that is no JSON object (a stack, words of a library) keeps
the time of the line before it; a file that is rotated while it is followed loses no line and repeats none.
"""

import contextlib
import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from tutti.report.values import printable

LEVELS = ("debug", "info", "warning", "error", "critical")
MOST_BYTES = 1 << 20  # of a line; what is longer is cut
ROTATED = ".1"  # behind the name of a log: what it held before


@dataclass(frozen=True)
class Line:
    """`time` is ISO 8601 in UTC, `fields` the object that was written; a raw line has its text as message."""

    time: str
    level: str
    service: str
    message: str
    fields: dict[str, Any]
    raw: bool = False

    def text(self) -> str:
        """For a person: time, level, process, message; an exception below it. No control character gets out."""
        head = f"{moment(self.time)}  {self.level:8} {self.service:12} {printable(self.message)}"
        below = str(self.fields.get("exception", "")).splitlines()
        return "\n".join([head, *(f"    {printable(each)}" for each in below)])


def moment(time: str) -> str:
    """A time as logs write it, in short."""
    return time.replace("+00:00", "Z")


def read(data: bytes, service: str, before: Line | None) -> Line:
    """A line of the log of `service`, behind the line `before`."""
    text = data.decode(errors="replace").rstrip("\r\n")
    try:
        fields = json.loads(text)
        level, time = fields["level"], fields["time"]
        return Line(str(time), str(level), str(fields["service"]), str(fields["message"]), fields)
    except (ValueError, KeyError, TypeError):
        time, level = (before.time, before.level) if before else ("", "")
        fields = {"time": time, "level": level, "service": service, "message": text}
        return Line(time, level, service, text, fields, raw=True)


@dataclass(frozen=True)
class Choice:
    """The filter of lines: `names` of which a line must contain one, the minimum level, the earliest time (ISO,
    UTC).
    """

    names: Sequence[str] = ()
    level: str = "debug"
    since: str = ""
    _pattern: re.Pattern[str] | None = field(init=False, default=None, compare=False)

    def __post_init__(self) -> None:
        if self.names:
            each = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True))
            object.__setattr__(self, "_pattern", re.compile(rf"(?<![\w./-])(?:{each})(?![\w-])"))

    def of(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Those of the lines of one file that are wanted; a raw line is if the line before it is."""
        kept = False
        for line in lines:
            if kept := self.keeps(line, before=kept):
                yield line

    def keeps(self, line: Line, *, before: bool) -> bool:
        """Return whether a line is wanted; `before` says so of the line before it, of the same process."""
        return (line.raw and before) or self._wants(line)

    def _wants(self, line: Line) -> bool:
        if line.time < self.since or (line.level in LEVELS and LEVELS.index(line.level) < LEVELS.index(self.level)):
            return False
        if self._pattern is None:
            return True
        return any(self._pattern.search(str(line.fields.get(key, ""))) for key in ("message", "exception", "thread"))


def service_of(path: Path) -> str:
    """The service that writes a log file."""
    return path.name.removesuffix(ROTATED).removesuffix(".log")


def files(folder: Path) -> list[Path]:
    """The logs of a data directory, without what was rotated."""
    return sorted(folder.glob("*.log"))


def written(folder: Path, choice: Choice, until: Mapping[Path, int] | None = None) -> Iterator[Line]:
    """The wanted lines of all logs, by time; `until` has where to stop, of logs of which that is known."""
    ends = until or {}
    found = (choice.of(_whole(path, ends.get(path))) for path in files(folder))
    return heapq.merge(*found, key=lambda line: line.time)


def _whole(path: Path, end: int | None) -> Iterator[Line]:
    before: Line | None = None
    for each, stop in ((path.with_name(path.name + ROTATED), None), (path, end)):
        with contextlib.suppress(FileNotFoundError), each.open("rb") as file:
            for data in lines(file, stop):
                before = read(data, service_of(path), before)
                yield before


def lines(file: BinaryIO, stop: int | None = None) -> Iterator[bytes]:
    """Whole lines, up to the offset `stop`; of one that is too long its beginning."""
    while (stop is None or file.tell() < stop) and (data := file.readline(MOST_BYTES)):
        rest = data
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(MOST_BYTES)
        yield data


@dataclass
class Tail:
    """Looks at one log again and again. It begins where the log ends now, unless it is told to read from the start."""

    path: Path
    offset: int = 0
    _rotated: int = 0
    _inode: int = 0
    _before: Line | None = None

    def __post_init__(self) -> None:
        self._rotated, self._inode = _stat(self._old)[0], _stat(self.path)[0]

    @property
    def _old(self) -> Path:
        return self.path.with_name(self.path.name + ROTATED)

    def to_end(self) -> "Tail":
        """The same, past all that there is; a line that is not ended yet is still to come."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            self.offset = _behind_last_newline(file)
        return self

    def news(self) -> Iterator[Line]:
        """The whole lines that came since the last look."""
        rotated, held = _stat(self._old)
        inode, size = _stat(self.path)
        if rotated != self._rotated:
            # All that was in the log is in the old one now. A log that is copied is emptied a moment later.
            yield from self._from(self._old)
            emptied = inode != self._inode or size < held
            self.offset = 0 if emptied else held
        elif size < self.offset:
            self.offset = 0
        self._rotated, self._inode = rotated, inode
        yield from self._from(self.path)

    def _from(self, path: Path) -> Iterator[Line]:
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(self.offset)
            while (data := file.readline(MOST_BYTES)) and (data.endswith(b"\n") or len(data) == MOST_BYTES):
                self.offset = file.tell()
                self._before = read(data, service_of(self.path), self._before)
                yield self._before


def _stat(path: Path) -> tuple[int, int]:
    """Inode and size; zeros for what is not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size


def _behind_last_newline(file: BinaryIO) -> int:
    end = file.seek(0, 2)
    start = max(0, end - MOST_BYTES)
    file.seek(start)
    return start + file.read(end - start).rfind(b"\n") + 1


@dataclass
class Followed:
    """The wanted news of all logs of a folder, those that appear too."""

    folder: Path
    choice: Choice
    _tails: dict[Path, Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._tails = {path: Tail(path).to_end() for path in files(self.folder)}

    @property
    def begins(self) -> dict[Path, int]:
        """The byte offset of the new lines of each log."""
        return {path: tail.offset for path, tail in self._tails.items()}

    def news(self) -> list[Line]:
        """The new lines since the last call, by time."""
        found: list[Line] = []
        for path in files(self.folder):
            tail = self._tails.setdefault(path, Tail(path))
            found += self.choice.of(tail.news())
        return sorted(found, key=lambda line: line.time)


def since(text: str, now: datetime) -> str:
    """A time such as 10m, 2h, 1d, 2026-01-31 or 2026-01-31T12:00:00, as logs write it. Raises ValueError."""
    if found := re.fullmatch(r"(\d{1,9})([smhd])", text):
        seconds = int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]
        then = datetime.fromtimestamp(max(0.0, now.timestamp() - seconds), UTC)
    else:
        then = datetime.fromisoformat(text)
        then = in_utc(then)
    return then.isoformat(timespec="milliseconds")


def in_utc(then: datetime) -> datetime:
    """UTC, also where no zone was named."""
    return then.replace(tzinfo=UTC) if then.tzinfo is None else then.astimezone(UTC)
