"""Quality statistics beside datatrove's filters, in megabytes of UTF-8 a second of one core, and their memory.

The text is the documentation of the standard library (tools/exhibit.py) as ingest extracts it; beside datatrove, which
is slow, it is the chapters of the language reference that Python carries (pydoc_data), mostly prose. Ours counts all
that the rules of Gopher, C4 and FineWeb need; datatrove's two Gopher filters are given thresholds that reject nothing,
so that they count all that is theirs. They run in a Python of their own (build/peers), from the dependency group
`peers`, so that the product's environment stays free of them. All is time on the core, not on the wall; memory is the
most that a process had resident at once which did nothing else.
"""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from tools import exhibit

from benchmarks.pairs import alternate, median, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, main, scratch
from benchmarks.resident import memory_row, nothing, peak_megabytes, peak_of
from benchmarks.table import Goal, Row, at_least, ratio_at_least
from benchmarks.verdicts import texts as compared
from benchmarks.verdicts import verdicts
from tutti.corpus.counts.statistics import count, native, statistics
from tutti.ingest.quality import pii
from tutti.ingest.quality.languages import languages
from tutti.ingest.quality.rules import RULES, decide
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.readers import read_folder
from tutti.ingest.reading.rejections import Rejection

SPEED, TIMES = at_least(30), ratio_at_least(100)
REPEATS = 20  # of ours in a turn, which is short
LOADED = "{:.0f} MB of ours are what is loaded"


class Peer:
    """datatrove in a process of its own: the same texts, a turn a line."""

    def __init__(self, texts: Path) -> None:
        command = [str(PYTHON), str(Path(__file__).with_name("quality_peer.py")), str(texts)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self) -> float:
        """Seconds on the core to filter all texts."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer())

    def megabytes(self) -> float:
        """The most that it had resident so far."""
        return peak_megabytes(self._process.pid)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def texts() -> list[str]:
    """The exhibit as documents."""
    made = exhibit.build(ROOT / "build" / "exhibit")
    found = [extract(page) for page in read_folder(made.folder) if isinstance(page, Page)]
    return [document.text for document in found if not isinstance(document, Rejection)]


def measure(quick: bool) -> list[Row]:
    """Ours beside the peer, then the other measures of the package."""
    every, chapters = texts(), [text for _, text in sorted(topics.items())]
    turns = 3 if quick else 7
    part = 4 if quick else 1
    rows = [*_beside_datatrove(chapters[::part], turns), *verdicts(compared()[::part])]
    arrays = pa.array(every)
    kernel = native()
    if kernel.library is None:
        rows.append(Row("all statistics", goal=SPEED, note=f"there is no kernel: {kernel.why_not}"))
    else:
        rows.append(_speed("all statistics", every, lambda: statistics(arrays), turns, goal=SPEED))
    counts = statistics(arrays)
    rows += [
        _speed("the same in Python", chapters[:5], lambda: [count(text) for text in chapters[:5]], 3),
        _speed("every rule, from the counts alone", every, lambda: decide(counts, RULES), turns),
        _speed("personal data found and masked", every, lambda: pii.inspect(arrays), turns),
        _speed("language", every, lambda: languages(arrays), turns),
    ]
    for what, work in (("all statistics", statistics), ("personal data", pii.inspect), ("language", languages)):
        note = f"{_megabytes(every):.2f} MB in {len(every)} documents; {LOADED.format(peak_of(nothing))}"
        rows.append(memory_row(what, [peak_of(_over, work, every)], [], note))
    return rows


def _over(work: Callable[[pa.Array], object], texts: Sequence[str]) -> None:
    work(pa.array(texts))


def _beside_datatrove(texts: Sequence[str], turns: int) -> list[Row]:
    what = "statistics beside datatrove's Gopher filters"
    if not PYTHON.exists():
        return [Row(what, goal=TIMES, note=HOW)]
    arrays, size = pa.array(texts), _megabytes(texts)
    with scratch("quality") as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(list(texts)))
        with Peer(path) as peer:
            cost = timed(lambda: [statistics(arrays) for _ in range(REPEATS)], time.process_time)
            pairs = alternate(lambda: cost() / REPEATS, peer.turn, pairs=turns)
            memory = memory_row(
                what, [peak_of(_over, statistics, texts)], [peer.megabytes()], LOADED.format(peak_of(nothing))
            )
    return [
        Row.of_speed(
            what,
            unit="MB/s",
            amount=size,
            pairs=pairs,
            goal=TIMES,
            note=f"{size:.2f} MB in {len(texts)} chapters",
        ),
        memory,
    ]


def _speed(what: str, texts: Sequence[str], work: Callable[[], object], turns: int, *, goal: Goal | None = None) -> Row:
    cost = timed(work, time.process_time)
    seconds = [cost() for _ in range(turns + 1)][1:]
    return Row(
        what, unit="MB/s", ours=_megabytes(texts) / median(seconds), goal=goal, note=f"{_megabytes(texts):.2f} MB"
    )


def _megabytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


if __name__ == "__main__":
    main("quality", __doc__, measure)
