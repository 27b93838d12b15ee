"""From an archive to document shards: read, extract, normalise, mask nothing, measure, digest, write.

Megabytes of HTML a second of one core, beside resiliparse alone, which parses and extracts the same records and does
nothing else, and beside trafilatura (in build/peers), which extracts a part of them. Then how much faster two processes
are than one, on the wall, each time from the begin of a program: what it loads is counted for both. Memory is the most
that a process had resident at once which did nothing else. The archive holds the standard library's documentation
(tools/exhibit.py), every page several times under a URL of its own, as answers in WARC, gzip a record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree
from tools import exhibit

from benchmarks.pairs import alternate, bootstrap, median, timed
from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, WentWrong, main, scratch
from benchmarks.resident import memory_row, nothing, peak_of
from benchmarks.table import Row, ratio_at_least
from tutti.ingest.crawl.archive import request, response
from tutti.ingest.crawl.fetching import Answer
from tutti.ingest.reading import shards

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHARE, TIMES, TIMES_TRAFILATURA = ratio_at_least(0.7), ratio_at_least(1.8), ratio_at_least(8)
TIMES_POSSIBLE = ratio_at_least(1.8 / 2)
SLOW_PAGES = 40
"""So many pages are enough for a peer that takes its time."""


def measure(quick: bool) -> list[Row]:
    """Ours beside bare extraction on one core, and beside trafilatura; then two processes beside one."""
    pages, turns = exhibit.build(ROOT / "build" / "exhibit").folder, 3 if quick else 5
    with scratch("reading") as name:
        folder = Path(name)
        archive, size = archived(pages, folder / "pages.warc.gz", copies=1)
        if (ours := _shards(archive, folder)) != (theirs := _bare(archive)):
            raise WentWrong(f"{ours} documents came of {theirs} pages")
        alone = alternate(_core(lambda: _shards(archive, folder)), _core(lambda: _bare(archive)), pairs=turns)
        rows = [
            Row.of_speed(
                what="WARC to document shards",
                unit="MB/s of a core",
                amount=size,
                pairs=alone,
                goal=SHARE,
                note=f"{size:.0f} MB of HTML; peer: resiliparse alone, tree and main content",
            ),
            _memory(archive, folder, size, peer=True),
            *_beside_trafilatura(pages, folder, turns),
        ]
        # So many copies that the begin of a program is a small part of it.
        archive, size = archived(pages, folder / "many.warc.gz", copies=4 if quick else 24)
        rows.append(_memory(archive, folder, size))
        return [*rows, *_two(_Programs(archive, folder), size, turns)]


def _two(programs: _Programs, size: float, turns: int) -> list[Row]:
    """Two processes beside one, and beside what two programs do here that have nothing to do with each other."""
    two = alternate(lambda: programs.wall(2), lambda: programs.wall(1), pairs=turns)
    apart = alternate(lambda: programs.apart() / 2, lambda: programs.wall(1), pairs=min(turns, 3))
    what, most = "the same in two processes", apart.speed().median
    return [
        Row.of_speed(
            what,
            unit="MB/s on the wall",
            amount=size,
            pairs=two,
            goal=TIMES,
            note=f"{size:.0f} MB; peer: one process, at {1 / programs.dearer():.2f} of the time on all cores; "
            f"at most {programs.megabytes():.0f} MB in each process",
        ),
        Row(
            f"{what}, beside two programs",
            unit="times one",
            ours=two.speed().median,
            peer=most,
            ratio=bootstrap([one / both / most for both, one in zip(two.ours, two.peer, strict=True)]),
            goal=TIMES_POSSIBLE,
            note="each of which reads all of it by one process, at the same time: more cannot be done on these cores",
        ),
    ]


def _memory(archive: Path, folder: Path, size: float, *, peer: bool = False) -> Row:
    resident = [
        (peak_of(_shards, archive, folder), peak_of(_bare, archive) if peer else 0.0) for _ in range(3 if peer else 1)
    ]
    return memory_row(
        f"WARC to document shards, {size:.0f} MB",
        [ours for ours, _ in resident],
        [theirs for _, theirs in resident] if peer else [],
        f"{peak_of(nothing):.0f} MB of {'both' if peer else 'it'} are what is loaded",
    )


def _beside_trafilatura(pages: Path, folder: Path, turns: int) -> list[Row]:
    what = "the same beside trafilatura"
    if not PYTHON.exists():
        return [Row(what, goal=TIMES_TRAFILATURA, note=HOW)]
    archive, size = archived(pages, folder / "few.warc.gz", copies=1, pages=SLOW_PAGES)
    command = [str(PYTHON), str(Path(__file__).with_name("reading_peer.py")), *map(str, _some(pages, SLOW_PAGES))]
    resident: list[float] = []

    def extracted() -> float:
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        resident.append(told["megabytes"])
        return float(told["core"])

    pairs = alternate(_core(lambda: _shards(archive, folder)), extracted, pairs=turns, warmups=1)
    return [
        Row.of_speed(
            what,
            unit="MB/s of a core",
            amount=size,
            pairs=pairs,
            goal=TIMES_TRAFILATURA,
            note=f"{size:.1f} MB in {SLOW_PAGES} pages; peer: trafilatura.extract, from bytes in memory to text",
        ),
        memory_row(what, [peak_of(_shards, archive, folder) for _ in range(turns)], resident[1:]),
    ]


class _Programs:
    """Programs that read an archive by several processes and have to write the same shards."""

    def __init__(self, archive: Path, folder: Path) -> None:
        self._archive, self._folder = archive, folder
        self._core: dict[int, list[float]] = {1: [], 2: []}
        self._megabytes: list[float] = []
        self._digests: list[str] = []

    def wall(self, workers: int) -> float:
        """Seconds on the wall by so many processes. Raises WentWrong."""
        told = self._told(self._started(workers, self._folder))
        self._core[workers].append(told["core"])
        self._megabytes.append(told["megabytes"])
        return float(told["wall"])

    def apart(self) -> float:
        """The same for two programs at once, of one process each."""
        folders = [self._folder / f"apart-{number}" for number in range(2)]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        return max(float(self._told(each)["wall"]) for each in [self._started(1, folder) for folder in folders])

    def _started(self, workers: int, folder: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benchmarks.reading_run", str(workers), str(self._archive), str(folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)

    def _told(self, program: subprocess.Popen[bytes]) -> Any:
        said, _ = program.communicate()
        if program.returncode:
            raise WentWrong(f"a reading ended with exit code {program.returncode}")
        told = json.loads(said)
        self._digests = self._digests or told["digests"]
        if told["digests"] != self._digests:
            raise WentWrong("other shards were written than before")
        return told

    def dearer(self) -> float:
        """What two processes cost on the cores, as a multiple of what one does."""
        return median(self._core[2]) / median(self._core[1])

    def megabytes(self) -> float:
        """The most that one process had resident, of all that there were."""
        return max(self._megabytes)


def _core(work: Callable[[], object]) -> Callable[[], float]:
    return timed(work, time.process_time)


def _some(pages: Path, most: int | None) -> list[Path]:
    """So many pages, from the first to the last."""
    found = sorted(pages.glob("*.html"))
    return found[:: max(1, len(found) // most)][:most] if most else found


def archived(folder: Path, path: Path, *, copies: int, pages: int | None = None) -> tuple[Path, float]:
    """An archive of answers, and how many megabytes of HTML are in it."""
    size = 0
    with path.open("wb") as file:
        for copy in range(copies):
            for page in _some(folder, pages):
                url, body = f"http://exhibit.test/{copy}/{page.name}", page.read_bytes()
                kind = (("Content-Type", "text/html; charset=utf-8"),)
                answer = Answer(url, "HTTP/1.1", 200, "OK", kind, body)
                file.write(response(answer, AT) + request(url, {}, AT))
                size += len(body)
    return path, size / 1e6


def _shards(archive: Path, folder: Path) -> int:
    """How many documents came of an archive."""
    written = shards.write_shards(shards.Reading(None, 50 << 20, 0, archives=(archive,)), folder)
    return written.documents


def _bare(archive: Path) -> int:
    """How many records an archive has."""
    count = 0
    with archive.open("rb") as file:
        for record in ArchiveIterator(file, record_types=WarcRecordType.response):
            tree = HTMLTree.parse_from_bytes(record.reader.read(), "utf-8")
            extract_plain_text(tree, main_content=True, alt_texts=False)
            count += 1
    return count


if __name__ == "__main__":
    main("reading", __doc__, measure)
