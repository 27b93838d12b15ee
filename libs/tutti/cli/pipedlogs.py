"""Log lines that `docker compose logs` prints: of several containers, each behind the name of its container.

Promises: any number of lines is read one at a time; a line that is no JSON object belongs to the line before it of the
same container.
"""

import heapq
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

from tutti.cli.loglines import Choice, Line, lines, read

_BEFORE = re.compile(
    rb"(?:(?P<container>[A-Za-z0-9][\w.-]*) +\| ?)?"  # absent with --no-log-prefix
    rb"(?:(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\d*Z )?"  # with --timestamps
)
_COPY = re.compile(r"-\d+$")


def chosen(source: BinaryIO, choice: Choice) -> Iterator[Line]:
    """The wanted lines, in the order in which they come."""
    before: dict[str, tuple[Line, bool]] = {}
    for data in lines(source):
        head = _BEFORE.match(data)
        assert head is not None, "it matches nothing, too"
        container = (head["container"] or b"").decode()
        last, kept = before.get(container, (None, False))
        line = read(data[head.end() :], _COPY.sub("", container), last)
        if line.raw and head["time"]:
            time = f"{head['time'].decode()}+00:00"
            line = replace(line, time=time, fields={**line.fields, "time": time})
        kept = choice.keeps(line, before=kept)
        before[container] = line, kept
        if kept:
            yield line


def newest(found: Iterable[Line], count: int) -> list[Line]:
    """The newest `count` lines by time, the oldest first; 0 for all."""
    numbered = ((line.time, number, line) for number, line in enumerate(found))
    ordered = heapq.nlargest(count, numbered)[::-1] if count else sorted(numbered)
    return [line for _, _, line in ordered]
