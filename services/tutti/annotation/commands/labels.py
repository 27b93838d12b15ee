"""Files of judged pairs, as `tutti campaigns import` reads them, in parts that fit into a campaign each.

A file has JSON lines, one list in JSON (`.json`), either packed with `.gz` or `.zst`, or rows of Parquet (`.parquet`).
A record is read up to the size of a campaign; a file that is cut, or has more than it may, imports nothing.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti.cli.failures import MISUSE, Failure
from tutti.corpus import objectfiles
from tutti.corpus.conversations.conversations import Messages
from tutti.corpus.conversations.labels import Labelled, labelled, to_json, unread_of
from tutti.corpus.conversations.unfit import Reason, Unfit
from tutti.records.canonical import JsonValue, canonical_json

MOST_BYTES = 3 << 20
LIMITS = objectfiles.Limits(MOST_BYTES)
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
    for each in objectfiles.values(path, LIMITS, decoder=json.JSONDecoder()):
        if isinstance(each.value, Unfit) and each.number == 0:
            raise Failure(f"{path} cannot be read: {each.value.detail}", MISUSE)
        yield f"{each.unit} {each.number}", each.value


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
