"""The documents of a set of shards that are left out, as a file with the document that stands for each.

Left out are: what holds n-grams of an evaluation text (`contamination.py`); then, of the rest, what is equal to, or
nearly the same as, an evaluation text, a document of an earlier dataset, or another document. These are compared
together, evaluation texts first, earlier documents after them: the first of a cluster stands for the others.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa

from tutti.chassis import progress
from tutti.corpus.documents import duplicates
from tutti.corpus.documents.duplicates import How
from tutti.corpus.threads import in_threads
from tutti.dedup.components import Documents
from tutti.dedup.contamination import Contaminated, Evaluation, Sought
from tutti.dedup.exact import exact_duplicates
from tutti.dedup.names import Names
from tutti.dedup.near import Near, alone, near_duplicates
from tutti.dedup.representatives import EARLIER, EVALUATION, OWN, Standing
from tutti.dedup.shards import Reader, Texts, reader, together

Held = TypeVar("Held")
"""Documents, wherever they are."""


@dataclass(frozen=True, slots=True)
class Compared(Generic[Held]):
    """The collections that documents are compared with, besides each other."""

    evaluation: Held | None = None
    sought: Sought = field(default_factory=Sought)
    earlier: tuple[Held, ...] = ()


ALONE: Compared[Texts] = Compared()


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """`path` is the file (tutti.corpus.documents.duplicates); `documents` stay.

    Of the `duplicates` `near` were no exact ones, and for `earlier` a document of an earlier dataset stands. Those that
    were left out as `contaminated` are no duplicates.
    """

    path: Path
    documents: int
    duplicates: int
    near: int
    earlier: int
    contaminated: int
    clusters: int


def find(own: Texts, near: float, scratch: Path, compared: Compared[Texts] = ALONE) -> ClusterResult:
    """Compare documents with each other and with others.

    `near` is the similarity of near-duplicates, 0 for exact ones alone; only those, and n-grams, need the texts, which
    are never held together but for evaluation texts. `scratch` is an empty folder.
    """
    workers = len(os.sched_getaffinity(0))
    held = _holding(own, compared, workers) if compared.evaluation else ()
    without = own.without.union(each.doc_id for each in held)
    readers = [reader(own.shards, without=without, before=OWN)]
    readers += [reader(each.shards, without=each.without, before=EARLIER) for each in compared.earlier]
    if compared.evaluation is not None:
        readers.append(reader(compared.evaluation.shards, before=EVALUATION))
    read = together(readers)
    names = Names(batch["doc_id"] for batch in read(["doc_id"]))
    equal = exact_duplicates(read, names)
    found = _near(read, names, equal, near, scratch, workers) if near else alone(len(names))
    return written(Standing.through(names, equal, found), len(names) - names.before(OWN), scratch, held)


def written(standing: Standing, documents: int, scratch: Path, held: Sequence[Contaminated] = ()) -> ClusterResult:
    """The file, and what is in it, of so many documents that were compared; `held`, by id, were left out before."""
    path = scratch / "clusters.parquet"
    duplicates.write(_with(held, standing.rows()), path)
    kept_out = standing.count(How.CONTAMINATED_NEAR)
    return ClusterResult(
        path,
        documents=documents - len(standing.documents),
        duplicates=len(standing.documents) - kept_out,
        near=standing.count(How.NEAR, How.EARLIER_NEAR),
        earlier=standing.count(How.EARLIER, How.EARLIER_NEAR),
        contaminated=len(held) + kept_out,
        clusters=standing.clusters(),
    )


def _holding(own: Texts, compared: Compared[Texts], workers: int) -> Sequence[Contaminated]:
    """The documents that hold n-grams of evaluation texts, by id, each once."""
    assert compared.evaluation is not None
    evaluation = Evaluation(reader(compared.evaluation.shards)(["doc_id", "text"]), compared.sought)
    batches = reader(own.shards, without=own.without)(["doc_id", "text"])
    return sorted({each for found in in_threads(evaluation.found, batches, workers) for each in found})


def _near(read: Reader, names: Names, equal: Documents, threshold: float, scratch: Path, workers: int) -> Near:
    """The near-duplicates among the first documents of each text."""
    folder = scratch / "near"
    folder.mkdir()
    passed, total = 0, len(names)

    def firsts(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        nonlocal passed
        for batch in read(columns):
            passed += len(batch)  # of both readings
            progress.say(min(passed // 2, total), total, unit="documents")
            documents = names.documents(batch["doc_id"])
            stay = equal[documents] == documents
            yield batch if stay.all() else batch.filter(pa.array(stay))

    return near_duplicates(firsts, names, folder, threshold=threshold, workers=workers)


def _with(held: Sequence[Contaminated], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of both, by id."""
    if held:
        ids, texts, shares = zip(*((each.doc_id, each.text, each.share) for each in held), strict=True)
        columns = [ids, texts, [How.CONTAMINATED.value] * len(held), shares]
        more = pa.record_batch([pa.array(column) for column in columns], schema=duplicates.schema())
        yield from pa.Table.from_batches([more, *rows]).sort_by("doc_id").to_batches()
    else:
        yield from rows
