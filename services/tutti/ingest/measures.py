"""Measures: what rules ask of documents, a row each, in a file beside their shard.

Promises: rules need nothing else, so that other thresholds and languages are applied without a text being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tutti.corpus.documents import Document
from tutti.corpus.rows import write_rows
from tutti.ingest.quality import languages, pii, statistics

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


def measured(documents: Sequence[Document]) -> pa.RecordBatch:
    """A row of SCHEMA for each document, in their order."""
    texts = pa.array([each.text for each in documents], pa.large_string())
    _, found = pii.inspect(texts, ())
    columns = [*statistics.statistics(texts).columns, *languages.languages(texts).columns, *found.columns]
    return pa.record_batch([pa.array([each.doc_id for each in documents], pa.string()), *columns], schema=SCHEMA)


def write(documents: Sequence[Document], path: Path) -> None:
    """Measure the documents of a shard, which are sorted by `doc_id`."""
    begins = range(0, len(documents), _TOGETHER)
    write_rows(SCHEMA, (measured(documents[begin : begin + _TOGETHER]) for begin in begins), path)
