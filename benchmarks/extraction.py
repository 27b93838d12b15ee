"""Main content of web pages: precision, recall and F1 beside trafilatura, readability-lxml and resiliparse.

The pages are those of trafilatura's own evaluation: for each a few strings that its main content has, and a few that it
has not. A string found is a true or a false positive, with white space ignored. Halves are by a digest of the names of
files: the rules of `markup.py` were developed on the pages of one half, and judged by the other. Speed is of one core,
from characters in memory to text. Put trafilatura's folder `tests` (evaldata.json, cache, eval) at build/extraction.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from benchmarks.peers import HOW, PYTHON
from benchmarks.program import ROOT, main
from benchmarks.table import Row, at_least
from tutti.corpus.documents.documents import MediaType
from tutti.ingest.encoding.sniffing import decode
from tutti.ingest.reading.maincontent import main_text
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import Mode

FOLDER = ROOT / "build" / "extraction"
NO_PAGES = "there is no build/extraction; copy the folder tests of trafilatura's source there"
QUICK_PAGES = 200
F1_BEHIND = 0.005
SPEED = 5
"""Ours is at most so far behind trafilatura's F1, at so many times its speed, and behind readability's on no half."""
HALVES = ("development half", "judged half")


@dataclass(frozen=True)
class _Page:
    path: Path
    present: tuple[str, ...]
    absent: tuple[str, ...]
    half: str


@dataclass(frozen=True)
class _Scores:
    precision: float
    recall: float
    f1: float

    def __str__(self) -> str:
        return f"precision {self.precision:.3f}, recall {self.recall:.3f}, F1 {self.f1:.3f}"


def measure(quick: bool) -> list[Row]:
    """A row for each extractor (F1 on all pages and on each half, and its speed), and for each goal."""
    what = "extraction"
    if not (FOLDER / "evaldata.json").exists():
        return [Row(what, unit="F1", goal=at_least(0), note=NO_PAGES)]
    pages = _pages()[: QUICK_PAGES if quick else None]
    html = [decode(page.path.read_bytes(), MediaType.HTML).text for page in pages]
    megabytes = sum(page.path.stat().st_size for page in pages) / 1e6
    found = {"ours": _ours(html), "resiliparse": _bare(html)}
    if PYTHON.exists():
        found |= {name: _peer(name, pages) for name in ("trafilatura", "trafilatura-fast", "readability")}
    scores = {name: _parts(pages, texts) for name, (texts, _) in found.items()}
    speeds = {name: megabytes / seconds for name, (_, seconds) in found.items()}
    rows = []
    for name, (whole, *halves) in scores.items():
        parts = [f"all: {whole}", *(f"{half}: {score}" for half, score in zip(HALVES, halves, strict=True))]
        goal = None
        if name == "ours" and "trafilatura" in scores:
            goal = at_least(scores["trafilatura"][0].f1 - F1_BEHIND)
        note = "; ".join([*parts, f"{speeds[name]:.1f} MB/s"])
        rows.append(Row(f"{what}, {name}", unit="F1", ours=whole.f1, goal=goal, note=note))
    if not PYTHON.exists():
        return [*rows, Row(f"{what}, peers", goal=at_least(0), note=HOW)]
    rows.append(
        Row(f"{what}, speed beside trafilatura", "MB/s", speeds["ours"], speeds["trafilatura"],
            goal=at_least(SPEED * speeds["trafilatura"]))
    )  # fmt: skip
    for half, ours, peer in zip(HALVES, scores["ours"][1:], scores["readability"][1:], strict=True):
        rows.append(Row(f"{what}, {half} beside readability", "F1", ours.f1, peer.f1, goal=at_least(peer.f1)))
    return rows


def _parts(pages: list[_Page], texts: list[str]) -> list[_Scores]:
    """The scores of all pages and of each half."""
    halves = [[(page, text) for page, text in zip(pages, texts, strict=True) if page.half == half] for half in HALVES]
    return [_scores(pages, texts), *(_scores(*map(list, zip(*half, strict=True))) for half in halves)]


def _pages() -> list[_Page]:
    listed = json.loads((FOLDER / "evaldata.json").read_text("utf-8"))
    return [_page(listed[url]) for url in sorted(listed)]


def _page(item: dict[str, Any]) -> _Page:
    path = next(path for part in ("cache", "eval") if (path := FOLDER / part / item["file"]).exists())
    first = hashlib.md5(path.name.encode(), usedforsecurity=False).digest()[0]
    return _Page(path, tuple(map(_words, item["with"])), tuple(map(_words, item["without"])), HALVES[first % 2])


def _ours(html: list[str]) -> tuple[list[str], float]:
    begun = time.process_time()
    pages = (rewritten(each.encode(), Mode.MAIN).html.decode() for each in html)
    return [main_text(page) for page in pages], time.process_time() - begun


def _bare(html: list[str]) -> tuple[list[str], float]:
    begun = time.process_time()
    return [extract_plain_text(HTMLTree.parse(each), main_content=True) for each in html], time.process_time() - begun


def _peer(name: str, pages: list[_Page]) -> tuple[list[str], float]:
    command = [str(PYTHON), str(Path(__file__).with_name("extraction_peer.py")), name]
    paths = "\n".join(str(page.path) for page in pages)
    told = json.loads(subprocess.run(command, input=paths, check=True, text=True, stdout=subprocess.PIPE).stdout)
    return told["texts"], told["core"]


def _scores(pages: list[_Page], texts: list[str]) -> _Scores:
    true = false = missed = 0
    for page, text in zip(pages, map(_words, texts), strict=True):
        seen = sum(each in text for each in page.present)
        true, missed = true + seen, missed + len(page.present) - seen
        false += sum(each in text for each in page.absent)
    return _Scores(true / (true + false), true / (true + missed), 2 * true / (2 * true + false + missed))


def _words(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main("extraction", __doc__, measure)
