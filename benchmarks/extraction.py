"""Main content of web pages: precision, recall and F1 beside trafilatura and readability-lxml.

The pages are those of trafilatura's own evaluation: for each a few strings that its main content has, and a few that it
has not. A string found is a true or a false positive, with white space ignored. The rules and names of `markup.py` were
chosen while the figures of all pages were seen, so no page here is unseen; halves by a digest of URLs show how figures
vary. Speed is of one core, from characters in memory to text. Put trafilatura's folder
`tests` (evaldata.json, cache, eval) at build/extraction.
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
from tutti.corpus.documents import MediaType
from tutti.ingest.encoding.sniffing import decode
from tutti.ingest.reading.maincontent import main_text
from tutti.ingest.reading.markup import rewritten
from tutti.ingest.reading.markupkinds import Mode

FOLDER = ROOT / "build" / "extraction"
NO_PAGES = "there is no build/extraction; copy the folder tests of trafilatura's source there"
QUICK_PAGES = 200
F1 = at_least(0.873)
"""readability-lxml's, on all pages."""
HALF, OTHER_HALF = "one half", "the other half"


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
    """A row for each extractor: F1 on all pages and on each half, and its speed."""
    what = "main content of pages"
    if not (FOLDER / "evaldata.json").exists():
        return [Row(what, goal=F1, note=NO_PAGES)]
    pages = _pages()[: QUICK_PAGES if quick else None]
    html = [decode(page.path.read_bytes(), MediaType.HTML).text for page in pages]
    megabytes = sum(page.path.stat().st_size for page in pages) / 1e6
    found = {"ours": _ours(html), "resiliparse": _bare(html)}
    if PYTHON.exists():
        found |= {name: _peer(name, pages) for name in ("trafilatura", "trafilatura-fast", "readability")}
    rows = []
    for name, (texts, seconds) in found.items():
        parts = [f"all: {_scores(pages, texts)}"]
        for half in (HALF, OTHER_HALF):
            some = [(page, text) for page, text in zip(pages, texts, strict=True) if page.half == half]
            parts.append(f"{half}: {_scores([page for page, _ in some], [text for _, text in some])}")
        note = "; ".join([*parts, f"{megabytes / seconds:.1f} MB/s"])
        goal = F1 if name == "ours" else None
        rows.append(Row(f"{what}, {name}", unit="F1", ours=_scores(pages, texts).f1, goal=goal, note=note))
    return rows if PYTHON.exists() else [*rows, Row(f"{what}, peers", note=HOW)]


def _pages() -> list[_Page]:
    listed = json.loads((FOLDER / "evaldata.json").read_text("utf-8"))
    return [_page(url, listed[url]) for url in sorted(listed)]


def _page(url: str, item: dict[str, Any]) -> _Page:
    path = next(path for part in ("cache", "eval") if (path := FOLDER / part / item["file"]).exists())
    first = hashlib.md5(url.encode(), usedforsecurity=False).digest()[0]
    half = OTHER_HALF if first % 2 else HALF
    return _Page(path, tuple(map(_words, item["with"])), tuple(map(_words, item["without"])), half)


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
