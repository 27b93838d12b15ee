"""Files of judged pairs, as `tutti campaigns import` reads them, in parts that fit into a campaign each.

A file has JSON lines, one list in JSON (`.json`), either packed with `.gz`, or rows of Parquet (`.parquet`).
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti.cli.failures import MISUSE, Failure
from tutti.corpus import parquetobjects
from tutti.corpus.conversations.conversations import Messages
from tutti.corpus.conversations.labels import Labelled, labelled, to_json, unread_of
from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.native.arrays import pa
from tutti.records.canonical import JsonValue, canonical_json

UTF_8 = "utf-8-sig"
"""With a byte order mark or without."""
MOST_BYTES = 3 << 20
QUOTED = 3


@dataclass(frozen=True)
class LabelPart:
    """JSON lines of a campaign."""

    text: str
    pairs: int
    judgements: int


@dataclass
class Labels:
    """The judgements of a file; `quoted` says how many records are no judgement, shows the first, and lists the fields
    that were not read.
    """

    parts: Sequence[LabelPart] = ()
    quoted: list[str] = field(default_factory=list)


def labels_in(path: Path, axes: Sequence[str]) -> Labels:
    """The judgements of a file on these axes. Raises Failure for a file that cannot be read."""
    found, pairs, unfit = Labels(), dict[tuple[Messages, tuple[str, str]], dict[str, Labelled]](), 0
    unread = set[str]()
    for place, record in _records(path):
        try:
            if isinstance(record, Unfit):
                raise record
            if not isinstance(record, dict):
                raise Unfit(Reason.NOT_AN_OBJECT, f"a {type(record).__name__}; expected an object")
            label = labelled(record, axes)
            said = pairs.setdefault((label.prompt, label.answers), {})
            if label.annotator in said:
                raise Unfit(Reason.TWICE, f"annotator {label.annotator} judged this pair before; expected once")
            said[label.annotator] = label
            unread |= unread_of(record)
        except Unfit as error:
            unfit += 1
            if unfit <= QUOTED:
                found.quoted.append(f"{place}: {error.detail}")
    if unfit:
        found.quoted.append(f"records of {path} that are no judgement of a pair, and were left out: {unfit:,}")
    if unread:
        found.quoted.append(f"fields that were not read: {', '.join(sorted(unread))}")
    found.parts = list(_parts(pairs))
    return found


def _records(path: Path) -> Iterator[tuple[str, object]]:
    """The records of a file, each with its place; an Unfit for one that cannot be read. Raises Failure."""
    name = path.name.lower()
    try:
        if name.endswith(".parquet"):
            with parquetobjects.opened(path) as file:
                for number, row in enumerate(parquetobjects.objects(file, MOST_BYTES), 1):
                    yield f"row {number}", row
            return
        with gzip.open(path, "rt", encoding=UTF_8) if name.endswith(".gz") else path.open(encoding=UTF_8) as text:
            first = next((line for line in text if line.strip()), "")
            if name.removesuffix(".gz").endswith(".json") and not isinstance(_decoded(first), dict):
                read = _decoded(first + text.read())
                items = read if isinstance(read, list) else [read]
                yield from ((f"record {number}", each) for number, each in enumerate(items, 1))
                return
            text.seek(0)
            for number, line in enumerate(text, 1):
                if line.strip():
                    yield f"line {number}", _decoded(line)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, pa.ArrowException) as error:
        raise Failure(f"{path} cannot be read: {error}", MISUSE) from error


def _decoded(text: str) -> object:
    """The value of JSON text, or an Unfit."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unfit(Reason.NOT_JSON, f"no JSON: {error}; expected an object on each line, or a list in a .json")


def _parts(pairs: dict[tuple[Messages, tuple[str, str]], dict[str, Labelled]]) -> Iterator[LabelPart]:
    lines, size, judgements = list[str](), 0, 0
    for (prompt, answers), said in pairs.items():
        record: dict[str, JsonValue] = {
            "prompt": [each.to_json() for each in prompt],
            "answers": list(answers),
            "judgements": [to_json(each) for each in said.values()],
        }
        line = canonical_json(record).decode()
        taken = len(line.encode()) + 1
        if lines and size + taken > MOST_BYTES:
            yield LabelPart("\n".join(lines), len(lines), judgements)
            lines, size, judgements = [], 0, 0
        lines.append(line)
        size, judgements = size + taken, judgements + len(said)
    if lines:
        yield LabelPart("\n".join(lines), len(lines), judgements)
