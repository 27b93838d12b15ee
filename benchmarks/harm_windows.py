"""Harm in windows: how much of it is found alone, in the middle of long answers and on pages, in three languages.

Trained on the learnt part of the carried set as recipes/harm-windows.yaml says; thresholds are chosen by
cross-validation in that part. Measured on texts that were never seen (datasets/harm_unseen) among harmless ones of the
same language, and on the held-out part. A harmful text is found if the classifier refuses the answer or page and does
not refuse it without that text. An answer of 1,000 characters has about seven harmless texts, all of which are near to
harm: news of crime, medicine, court reports. Beside it, the classifier of whole texts (recipes/harm.yaml).
"""

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harm import KEEPS, MOST_FALSE, UNSEEN, Carried, carried
from benchmarks.program import main
from benchmarks.table import Goal, Row, at_least, at_most
from tutti.corpus.quality.classifier import Classifier, told
from tutti.ingest.quality.learning import Lesson, learn
from tutti.judgements.intervals import wilson

WINDOW, WINDOW_FALSE = 192, 0.02
ANSWERS, CHARACTERS = 400, 1000
"""Number of harmless answers for each language, and their length."""
PAGES = (300, 1000)
"""Words of the pages."""
RECALL, FALSE = at_least(85), at_most(3)


def refused(classifier: Classifier, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """bool [texts]."""
    scores = classifier.scores(pa.array(texts, pa.large_string()))
    return told(scores, [each.threshold for each in classifier.labels]) > 0


def lesson_of_windows(every: Sequence[Carried]) -> Lesson:
    """The classifier of recipes/harm-windows.yaml."""
    return learn([each.example for each in every], KEEPS, WINDOW_FALSE, window=WINDOW)


def around(harmless: Sequence[str], source: random.Random, size: int) -> tuple[str, str]:
    """Harmless texts of `size` characters together, the first and the second half."""
    halves = []
    for _ in range(2):
        text = ""
        while len(text) < size // 2:
            text = f"{text} {source.choice(harmless)}".strip()
        halves.append(text)
    return halves[0], halves[1]


def measure(quick: bool) -> list[Row]:
    """Recall and refusals, of windows and of whole texts."""
    every, unseen = carried(), carried(UNSEEN)
    examples = [each.example for each in every]
    windows, whole = lesson_of_windows(every), learn(examples, KEEPS, MOST_FALSE)
    of = {each.text: each for each in every}
    held = [of[each.text] for each in windows.held_out]
    rows = []
    for part, texts in (("unseen", unseen), ("held out", held)):
        for way, lesson in (("windows", windows), ("whole texts", whole)):
            rows += _told(f"{part}, {way}", lesson.classifier, texts, quick, goals=(part, way) == ("unseen", "windows"))
    return rows


def _told(what: str, classifier: Classifier, texts: Sequence[Carried], quick: bool, *, goals: bool) -> list[Row]:
    found: dict[str, list[npt.NDArray[np.bool_]]] = {}
    rows = []
    for language in ("en", "de", "es"):
        source = random.Random(language)
        harmful = [each.text for each in texts if each.language == language and each.label != KEEPS]
        harmless = [each.text for each in texts if each.language == language and each.label == KEEPS]
        sizes = {f"in an answer of {CHARACTERS} characters": CHARACTERS}
        letters = sum(map(len, harmless)) / sum(len(each.split()) for each in harmless)
        sizes |= {f"on a page of {words} words": int(words * (letters + 1)) for words in PAGES}
        of_language = {"recall alone": refused(classifier, harmful)}
        for where, size in sizes.items():
            places = [around(harmless, source, size) for _ in harmful]
            pages = [" ".join([one, text, two]) for (one, two), text in zip(places, harmful, strict=True)]
            without = refused(classifier, [" ".join(place) for place in places])
            of_language[f"recall {where}"] = refused(classifier, pages) & ~without
        count = ANSWERS // (4 if quick else 1)
        answers = [" ".join(around(harmless, source, CHARACTERS)) for _ in range(count)]
        of_language[f"harmless answers of {CHARACTERS} characters refused"] = refused(classifier, answers)
        of_language["harmless texts refused"] = refused(classifier, harmless)
        for name, each in of_language.items():
            found.setdefault(name, []).append(each)
            rows.append(_share(f"  {what}, {language}: {name}", each))
    for name, parts in found.items():
        goal = (RECALL if name.startswith("recall") else FALSE) if goals else None
        rows.append(_share(f"{what}: {name}", np.concatenate(parts), goal))
    return rows


def _share(what: str, found: npt.NDArray[np.bool_], goal: Goal | None = None) -> Row:
    number, total = int(found.sum()), len(found)
    low, high = wilson(number / total, total)
    note = f"{number} of {total}, 95 %: {100 * max(0.0, low):.1f} to {100 * high:.1f}"
    return Row(what, "%", 100 * number / total, goal=goal, note=note)


if __name__ == "__main__":
    main("harm_windows", __doc__, measure)
