"""The carried set of harm, its unseen texts and real documentation, and what classifier and lexicon make of them.

A file of the set is named by its language; of harmless texts by what they are near to, too: `spam.en.jsonl`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.program import ROOT
from tutti.corpus.counts.statistics import statistics
from tutti.corpus.quality.classifier import Classifier, told
from tutti.ingest.quality import lexicon
from tutti.ingest.quality.learning import Example

CARRIED = ROOT / "datasets" / "harm"
UNSEEN = ROOT / "datasets" / "harm_unseen"
KEEPS, MOST_FALSE = "harmless", 0.06
"""The largest of .02 to .06 with which at most 3 % of the harmless held-out texts are rejected. Cross-validation, by
which thresholds are chosen, rejects twice as many, since it learns from fewer texts."""
CHUNK_WORDS = 60


@dataclass(frozen=True)
class Carried:
    """A text of the set; `near`: of a harmless one what it is a neighbour of, else its label."""

    text: str
    label: str
    near: str
    language: str

    @property
    def example(self) -> Example:
        return Example(self.text, self.label)


def carried(root: Path = CARRIED) -> list[Carried]:
    """Return every text of the set, or of UNSEEN, from which nothing is learnt."""
    found = []
    for path in sorted(root.rglob("*.jsonl")):
        *near, language = path.stem.split(".")
        for line in path.read_text(encoding="utf-8").splitlines():
            label = path.parent.name
            found.append(Carried(json.loads(line)["text"], label, near[0] if near else label, language))
    return found


def documentation(pages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Chunks of real documentation, each once, each with its source: descriptions of the packages that are installed,
    chapters of the language reference that Python carries, then these pages (of the standard library).
    """
    described = sorted({str(each.metadata.json.get("description") or "") for each in distributions()} - {""})
    sources = {"packages": described, "reference": [text for _, text in sorted(topics.items())], "pages": pages}
    seen = set()
    for source, texts in sources.items():
        for text in texts:
            for chunk in chunks(str(text)):
                if chunk not in seen:
                    seen.add(chunk)
                    yield source, chunk


def chunks(text: str) -> Iterator[str]:
    """Lines in a row that have CHUNK_WORDS words together, or a few more."""
    held: list[str] = []
    size = 0
    for line in text.splitlines():
        held.append(line.strip())
        size += len(line.split())
        if size >= CHUNK_WORDS:
            yield "\n".join(held).strip()
            held, size = [], 0


@dataclass(frozen=True)
class Verdicts:
    """What each text is told as: by the classifier (0 for kept), and whether the lexicon rejects it."""

    classifier: npt.NDArray[np.int64]
    lexicon: npt.NDArray[np.bool_]

    @property
    def either(self) -> npt.NDArray[np.bool_]:
        return (self.classifier > 0) | self.lexicon


def verdicts(classifier: Classifier, texts: Sequence[str]) -> Verdicts:
    """By thresholds of the classifier, and by the rules of the lexicon."""
    array = pa.array(texts, pa.large_string())
    answers = told(classifier.scores(array), [each.threshold for each in classifier.labels])
    counts = pa.record_batch(
        [*lexicon.counts(array).columns, statistics(array)["words"]], names=[*lexicon.schema().names, "words"]
    )
    kept = np.logical_and.reduce([rule.keeps(counts) for rule in lexicon.HARM_LEXICON])
    return Verdicts(answers, ~kept)
