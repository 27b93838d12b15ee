"""Texts whose language is known, and what they are told as."""

from collections.abc import Iterable, Iterator

from benchmarks.program import ROOT
from tutti.ingest.quality.languages import MACRO_LANGUAGES, identified

SENTENCES = ROOT / "datasets" / "languages"


def sentences() -> Iterator[tuple[str, str]]:
    """Language, as its file names it, and sentence."""
    for path in sorted(SENTENCES.glob("*.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield path.stem, line


def told(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The macro-language of each text, and the one that it is told as."""
    given = list(texts)
    found = identified([text for _, text in given])
    return [(MACRO_LANGUAGES.get(code, code), each.macro) for (code, _), each in zip(given, found, strict=True)]
