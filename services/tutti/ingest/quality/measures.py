"""Measures: what rules ask of documents, a row each, in a file beside their shard.

Promises: rules need nothing else, so that other thresholds and languages are applied without a text being read.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tutti.corpus.counts import statistics
from tutti.corpus.documents.documents import Document
from tutti.corpus.quality.classifier import Classifier, decode
from tutti.corpus.rows import write_rows
from tutti.ingest.quality import languages, lexicon, pii
from tutti.ingest.quality.findings import Kind
from tutti.native.arrays import pa

MEASURES_VERSION = (
    f"{statistics.STATISTICS_VERSION}.{pii.PII_VERSION}.{languages.LANGUAGES_VERSION}.{lexicon.LEXICON_VERSION}"
)
_TOGETHER = 4096


@cache
def schema() -> pa.Schema:
    """Return the columns of what is measured of a document."""
    return pa.schema(
        [
            pa.field("doc_id", pa.string(), nullable=False),
            *statistics.schema(),
            *languages.schema(),
            *pii.schema(),
            *lexicon.schema(),
        ]
    )


Models = tuple[tuple[str, Path | bytes], ...]
"""Classifiers by their names, each a local file or its bytes; a score of each text is a column, NAME.LABEL."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A document, and how much personal data stood in its text before any of it was masked."""

    document: Document
    personal: Mapping[Kind, int]


def inspect(document: Document, mask: Collection[Kind]) -> Inspected:
    """Count personal data; what is of these kinds is masked in the document's text and title."""
    found = pii.find(document.text)
    personal = Counter(each.kind for each in found)
    if mask:
        title = pii.masked(document.title, pii.find(document.title), mask)
        document = document.saying(pii.masked(document.text, found, mask), title)
    return Inspected(document, personal)


def measured(inspected: Sequence[Inspected], models: Models = ()) -> pa.RecordBatch:
    """A row of `schema`, with the scores of these models behind it, for each document, in their order."""
    written = [each.document.text for each in inspected]
    texts = pa.array(written, pa.large_string())
    names = pa.array([each.document.doc_id for each in inspected], pa.string())
    personal = [pa.array([each.personal.get(kind, 0) for each in inspected], pa.int64()) for kind in pii.COLUMNS]
    columns = [names, *statistics.statistics(texts).columns, *languages.told(written).columns, *personal]
    columns += lexicon.counts(texts).columns
    fields = list(schema())
    for name, source in models:
        classifier = _loaded(source)
        columns += [pa.array(column) for column in classifier.scores(texts).T]
        fields += [pa.field(f"{name}.{label.name}", pa.float64(), nullable=False) for label in classifier.labels]
    return pa.record_batch(columns, schema=pa.schema(fields))


def held(models: Models) -> Models:
    """The same with the bytes of each, for a machine that has not the files."""
    return tuple((name, _bytes(source)) for name, source in models)


@functools.lru_cache(maxsize=8)
def _loaded(source: Path | bytes) -> Classifier:
    return decode(_bytes(source))


def _bytes(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()


def write(rows: pa.Table, path: Path) -> None:
    """Write rows as they were measured, sorted by `doc_id`; the same rows give the same bytes."""
    write_rows(rows.schema, rows.to_batches(_TOGETHER), path)
