"""Measures: what rules ask of documents, a row each, in a file beside their shard.

Promises: rules need nothing else, so that other thresholds and languages are applied without a text being read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tutti.corpus.documents import Document
from tutti.corpus.rows import write_rows
from tutti.ingest.quality import languages, pii, statistics
from tutti.ingest.quality.findings import Kind

MEASURES_VERSION = f"{statistics.STATISTICS_VERSION}.{pii.PII_VERSION}.{languages.LANGUAGES_VERSION}"
_TOGETHER = 256

SCHEMA = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        *statistics.SCHEMA,
        *languages.SCHEMA,
        *pii.SCHEMA,
    ]
)


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


def measured(inspected: Sequence[Inspected]) -> pa.RecordBatch:
    """A row of SCHEMA for each document, in their order."""
    texts = pa.array([each.document.text for each in inspected], pa.large_string())
    names = pa.array([each.document.doc_id for each in inspected], pa.string())
    personal = [pa.array([each.personal.get(kind, 0) for each in inspected], pa.int64()) for kind in pii.COLUMNS]
    columns = [names, *statistics.statistics(texts).columns, *languages.languages(texts).columns, *personal]
    return pa.record_batch(columns, schema=SCHEMA)


def write(rows: pa.Table, path: Path) -> None:
    """Write rows of SCHEMA, which are sorted by `doc_id`; the same rows give the same bytes."""
    write_rows(SCHEMA, rows.to_batches(_TOGETHER), path)
