"""Batches: one process reads records, and several, of which it is one, make documents of them and measure those.

Promises: what comes out is in the order in which it was read, whatever the number of workers, and memory holds a few
batches; a little input is done where it is read, without another process.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tutti.chassis import progress
from tutti.ingest.quality import measures
from tutti.ingest.quality.findings import Kind
from tutti.ingest.reading.containers import Page, Record, Text
from tutti.ingest.reading.extraction import extract_all
from tutti.ingest.reading.rejections import Rejection
from tutti.native.arrays import pa

BATCH_BYTES, BATCH_RECORDS = 8 << 20, 1024
"""A batch reads the tables of languages and characters anew, which parsing drove out of the processor's cache."""
FEW = 2
"""Fewer batches are not worth another process."""
AHEAD, KEPT = 2, 4
"""Batches that are given to each other process, and that wait, for each process, for one before them to be made."""

Batch = list[tuple[str, Record]]
"""Records, each with the path of its file."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The results of a batch: in its order, with the path of the file; a row of measures.schema() for each document."""

    items: list[tuple[str, measures.Inspected | Rejection]]
    rows: pa.RecordBatch


def batches(records: Iterable[tuple[str, Record]]) -> Iterator[Batch]:
    """Records put together, at most BATCH_RECORDS and, but for the last of them, BATCH_BYTES; says how far it is."""
    batch, size, read = Batch(), 0, 0
    for path, record in records:
        batch.append((path, record))
        size += len(record.data) if isinstance(record, Page) else len(record.text) if isinstance(record, Text) else 0
        if size >= BATCH_BYTES or len(batch) >= BATCH_RECORDS:
            yield batch
            read += size
            progress.say(read, unit="bytes")
            batch, size = [], 0
    if batch:
        yield batch


def make(batch: Batch, mask: Collection[Kind], models: measures.Models = ()) -> BatchResult:
    """Extract, mask, measure and score."""
    found = extract_all(record for _, record in batch)
    items = [each if isinstance(each, Rejection) else measures.inspect(each, mask) for each in found]
    rows = measures.measured([each for each in items if isinstance(each, measures.Inspected)], models)
    return BatchResult([(path, each) for (path, _), each in zip(batch, items, strict=True)], rows)


def made(
    read: Iterator[Batch], mask: Collection[Kind], workers: int, scratch: Path, models: measures.Models = ()
) -> Iterator[BatchResult]:
    """Process batches in so many processes at once, and yield their results. Raises the errors of reading."""
    first = list(itertools.islice(read, FEW))
    if workers < 2 or len(first) < FEW:
        for batch in itertools.chain(first, read):
            yield make(batch, mask, models)
        return
    yield from _spread(itertools.chain(first, read), mask, workers, scratch, models)


def _spread(
    read: Iterator[Batch], mask: Collection[Kind], workers: int, scratch: Path, models: measures.Models
) -> Iterator[BatchResult]:
    # A thread for each other process waits for it; the next batch of each is there before it asks.  What they have no
    # hands for, while they start too, is made here, and so at the end is what they have not begun.
    # Slow to import, and the other processes, which import this too, start none.
    from tutti.platform.pool import ProcessPool

    others = workers - 1
    with closing(ProcessPool(others, scratch=scratch)) as pool, ThreadPoolExecutor(others) as threads:
        waiting: deque[tuple[Batch, Future[BatchResult]]] = deque()
        for batch in read:
            given = sum(not each.done() for _, each in waiting)
            if given < AHEAD * others:
                waiting.append((batch, threads.submit(pool.run, make, batch, mask, models)))
            else:
                waiting.append(([], _done(make(batch, mask, models))))
            while waiting and (len(waiting) >= KEPT * workers or waiting[0][1].done()):
                yield waiting.popleft()[1].result()
        for at, (batch, given_away) in reversed([*enumerate(waiting)]):
            if given_away.cancel():
                waiting[at] = [], _done(make(batch, mask, models))
        for _, each in waiting:
            yield each.result()


def _done(made: BatchResult) -> Future[BatchResult]:
    here = Future[BatchResult]()
    here.set_result(made)
    return here


def chosen(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    """Rows of measures, sorted by `doc_id`."""
    return pa.Table.from_batches(rows, rows[0].schema if rows else measures.schema()).sort_by("doc_id").combine_chunks()
