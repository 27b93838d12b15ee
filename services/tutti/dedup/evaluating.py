"""Evaluating: which documents of shards hold n-grams of evaluation texts, found where the nodes of a cluster are.

Promises: a process reads the evaluation texts of a search once; it holds their n-grams until it looks for others.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import asdict, dataclass

import pyarrow as pa

from tutti.dedup.contamination import Evaluation, Sought
from tutti.dedup.reading import Place, Reading
from tutti.dedup.shards import reader

HELD = pa.schema([("doc_id", pa.string()), ("text", pa.string()), ("share", pa.float64())])
"""Contaminated, as rows."""

_lock = threading.Lock()


@dataclass(frozen=True)
class Evaluating:
    """`texts`: the shards of the evaluation texts."""

    reading: Reading
    texts: tuple[Place, ...]
    sought: Sought

    def held(self, rows: pa.Table) -> pa.Table:
        """By shard, SHARDS → HELD. Raises Unreadable, TooManyTexts, UnreadableTexts."""
        with _lock:
            evaluation = _made(self)
        with self.reading.shard(rows) as shard:
            found = [each for batch in shard.batches("text") for each in evaluation.found(batch)]
        return pa.Table.from_pylist([asdict(each) for each in found], schema=HELD)


@functools.lru_cache(maxsize=1)
def _made(asked: Evaluating) -> Evaluation:
    with asked.reading.files(asked.texts) as paths:
        return Evaluation(reader(paths)(["doc_id", "text"]), asked.sought)
