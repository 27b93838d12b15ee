"""Classifiers, the lexicon of harm and the identifier of languages on texts that they never saw.

Harm: trained on the learnt part of the carried set (datasets/harm says what it is, and what it does not prove), told on
its held-out part, on texts that were set apart before its last texts were written (datasets/harm_unseen; only counts
are printed, so that they stay unseen) and on real documentation. Quality: prose (chapters of the language reference)
against listings (pages of the standard library), from the same Python. Languages: the carried set of harm, and
sentences in 30 languages (datasets/languages), as their files name them. Of each there is a table of confusion. Time is
on the core.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pydoc_data.topics import topics

import numpy as np
import pyarrow as pa

from benchmarks.confusion import confusion
from benchmarks.harm import (
    CHUNK_WORDS,
    KEEPS,
    MOST_FALSE,
    UNSEEN,
    Carried,
    Verdicts,
    carried,
    chunks,
    documentation,
    verdicts,
)
from benchmarks.languages import sentences
from benchmarks.languages import told as languages_told
from benchmarks.pairs import median, timed
from benchmarks.program import main
from benchmarks.quality import texts as pages
from benchmarks.table import Goal, Row, at_least, at_most
from tutti.corpus.counts.statistics import statistics
from tutti.ingest.quality import lexicon
from tutti.ingest.quality.learning import Example, Lesson, learn
from tutti.judgements.intervals import wilson

DOCUMENTS, PARAGRAPHS = 10_000, 9
RECALL, FALSE, FALSE_REAL = at_least(90), at_most(3), at_most(0.5)
"""Standard deviations on each side of a 95 % interval."""


def measure(quick: bool) -> list[Row]:
    """Harm, quality, languages, speed."""
    every = carried()
    lesson = learn([each.example for each in every], KEEPS, MOST_FALSE)
    of = {each.text: each for each in every}
    held = [of[each.text] for each in lesson.held_out]
    found = verdicts(lesson.classifier, [each.text for each in held])
    read = pages()
    return [
        *_told("held out", held, found, f"learnt+held: {_sizes(lesson)}"),
        *confusion("harm held out by the classifier", _pairs(lesson)),
        *_by_category_and_language(held, found),
        *_unseen(lesson),
        *_inside(lesson),
        _real(lesson, read, DOCUMENTS // (10 if quick else 1)),
        _whole(lesson, read),
        *_quality(read),
        *_languages(every),
        *_speed(lesson, read, 3 if quick else 7),
    ]


def _told(part: str, texts: Sequence[Carried], found: Verdicts, note: str = "") -> list[Row]:
    harmful = np.array([each.label != KEEPS for each in texts])
    ways = {"classifier": found.classifier > 0, "lexicon": found.lexicon, "classifier or lexicon": found.either}
    rows = []
    for at, (way, rejected) in enumerate(ways.items()):
        recall, false = (None, None) if at else (RECALL, FALSE)
        rows.append(_share(f"harm {part}: recall, {way}", rejected[harmful], recall, "" if at else note))
        rows.append(_share(f"harm {part}: false positives, {way}", rejected[~harmful], false))
    return rows


def _sizes(lesson: Lesson) -> str:
    return ", ".join(f"{each.label} {each.trained}+{each.held_out}" for each in lesson.learnt)


def _pairs(lesson: Lesson) -> Iterator[tuple[str, str]]:
    """Of each held-out text its label and the one that it is told as."""
    for row in lesson.held:
        for name, count in row.told:
            yield from [(row.label, name)] * count


def _unseen(lesson: Lesson) -> list[Row]:
    texts = carried(UNSEEN)
    found = verdicts(lesson.classifier, [each.text for each in texts])
    return [*_told("unseen", texts, found), *_by_category_and_language(texts, found)]


def _inside(lesson: Lesson) -> list[Row]:
    """Harmful texts that the classifier never saw, alone and as the middle paragraph of a page of harmless ones."""
    english = [each for each in carried(UNSEEN) if each.language == "en"]
    harmful = [each.text for each in english if each.label != KEEPS]
    others = [each.text for each in english if each.label == KEEPS]
    rows = []
    for paragraphs in (1, 3, PARAGRAPHS):
        pages = []
        for at, text in enumerate(harmful):
            around = [others[(at * (PARAGRAPHS - 1) + place) % len(others)] for place in range(paragraphs - 1)]
            middle = len(around) // 2
            pages.append("\n\n".join([*around[:middle], text, *around[middle:]]))
        found = verdicts(lesson.classifier, pages)
        words = f"{median([float(len(page.split())) for page in pages]):.0f} words"
        what = "alone" if paragraphs == 1 else f"as one of {paragraphs} paragraphs"
        for way, rejected in (("classifier", found.classifier > 0), ("lexicon", found.lexicon)):
            rows.append(_share(f"harm unseen, English, {what}: recall, {way}", rejected, None, words))
    return rows


def _by_category_and_language(texts: Sequence[Carried], found: Verdicts) -> list[Row]:
    rows = []
    for near in sorted({each.near for each in texts}):
        for language in sorted({each.language for each in texts}):
            for harmful, what in ((True, "recall"), (False, "false positives of neighbours")):
                at = [
                    place
                    for place, each in enumerate(texts)
                    if (each.near, each.language, each.label != KEEPS) == (near, language, harmful)
                ]
                if at:
                    rows.append(_share(f"  {near}, {language}: {what}", found.either[at], None))
    return rows


def _real(lesson: Lesson, read: Sequence[str], count: int) -> Row:
    taken = [pair for pair, _ in zip(documentation(read), range(count), strict=False)]
    found = verdicts(lesson.classifier, [chunk for _, chunk in taken])
    sources = ", ".join(f"{source} {number}" for source, number in Counter(source for source, _ in taken).items())
    by = f"{int((found.classifier > 0).sum())} by the classifier, {int(found.lexicon.sum())} by the lexicon"
    what = f"harm: false positives on pieces of real documentation, {CHUNK_WORDS} words each"
    return _share(what, found.either, FALSE_REAL, f"{sources}; {by}")


def _whole(lesson: Lesson, read: Sequence[str]) -> Row:
    found = verdicts(lesson.classifier, [*read, *topics.values()])
    note = f"{len(read)} pages of the library, {len(topics)} of the reference"
    return _share("harm: false positives on whole documents", found.either, FALSE_REAL, note)


def _quality(read: Sequence[str]) -> list[Row]:
    lesson = prose_and_listings(read)
    sizes = Row("quality: learnt+held out", note=_sizes(lesson))
    return [sizes, *confusion("quality held out", _pairs(lesson))]


def prose_and_listings(read: Sequence[str]) -> Lesson:
    """What is learnt of chapters of the language reference, and of these pages."""
    prose = [chunk for _, text in sorted(topics.items()) for chunk in chunks(text)]
    listings = [chunk for text in read for chunk in chunks(text)][:: max(1, len(read) // 30)][: 2 * len(prose)]
    labelled = {chunk: "listing" for chunk in listings} | {chunk: "prose" for chunk in prose}
    return learn([Example(chunk, label) for chunk, label in labelled.items()], "prose", 0.02)


def _languages(every: Sequence[Carried]) -> list[Row]:
    return [
        *confusion("language of the carried set", languages_told((each.language, each.text) for each in every)),
        *confusion("language of sentences", languages_told(sentences())),
    ]


def _speed(lesson: Lesson, read: Sequence[str], turns: int) -> list[Row]:
    array = pa.array(read, pa.large_string())
    size = sum(len(text.encode()) for text in read) / 1e6
    works = {
        "scores of a classifier": lambda: lesson.classifier.scores(array),
        "terms of the lexicon": lambda: lexicon.counts(array),
        "all statistics, beside them": lambda: statistics(array),
    }
    costs = {name: timed(work, time.process_time) for name, work in works.items()}
    seconds = {name: [cost() for _ in range(turns + 1)][1:] for name, cost in costs.items()}
    return [Row(name, "MB/s", size / median(each), note=f"{size:.2f} MB") for name, each in seconds.items()]


def _share(what: str, found: np.ndarray, goal: Goal | None, note: str = "") -> Row:
    number, total = int(np.count_nonzero(found)), len(found)
    low, high = wilson(number / total, total)
    told = f"{number} of {total}, 95 %: {100 * max(0.0, low):.1f} to {100 * high:.1f}"
    return Row(what, "%", 100 * number / total, goal=goal, note=f"{told}{'; ' if note else ''}{note}")


if __name__ == "__main__":
    main("classifiers", __doc__, measure)
