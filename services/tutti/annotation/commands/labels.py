"""Files of judged pairs, as `tutti campaigns import` reads them: by line, in parts that fit into a campaign each."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti.cli.failures import MISUSE, Failure
from tutti.corpus.conversations import Messages
from tutti.corpus.labels import Labelled, labelled, to_json
from tutti.corpus.layouts import Reason, Unfit
from tutti.records.canonical import JsonValue, canonical_json

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
    """The judgements of a file; `quoted` says how many lines are no judgement, and shows the first."""

    parts: Sequence[LabelPart] = ()
    quoted: list[str] = field(default_factory=list)


def labels_in(path: Path, axes: Sequence[str]) -> Labels:
    """Raises Failure for a file that cannot be read."""
    found, pairs, unfit = Labels(), dict[tuple[Messages, tuple[str, str]], dict[str, Labelled]](), 0
    for number, line in _lines(path):
        try:
            label = labelled(_object(line), axes)
            said = pairs.setdefault((label.prompt, label.answers), {})
            if label.annotator in said:
                raise Unfit(Reason.TWICE, f"annotator {label.annotator} judged this pair before; expected once")
            said[label.annotator] = label
        except Unfit as error:
            unfit += 1
            if unfit <= QUOTED:
                found.quoted.append(f"line {number}: {error.detail}")
    if unfit:
        found.quoted.append(f"lines of {path} that are no judgement of a pair, and were left out: {unfit:,}")
    found.parts = list(_parts(pairs))
    return found


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read as text: {error}", MISUSE) from error


def _object(line: str) -> dict[str, object]:
    """Raises Unfit."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise Unfit(Reason.NOT_JSON, f"no JSON: {error}; expected an object on each line") from error
    if not isinstance(found, dict):
        raise Unfit(Reason.NOT_AN_OBJECT, f"a {type(found).__name__}; expected an object on each line")
    return found


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
