"""Which documents of a set of shards are left out, as the file that says who stands for whom.

Left out are: what holds n-grams of an evaluation text (`contamination.py`); then, of the rest, what is equal to, or
nearly the same as, an evaluation text, a document of an earlier dataset, or another document. These are compared
together, evaluation texts first, earlier documents after them: the first of a cluster stands for the others.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from tutti.chassis import progress
from tutti.corpus import duplicates
from tutti.corpus.duplicates import How
from tutti.corpus.threads import in_threads
from tutti.dedup.contamination import Contaminated, Evaluation, Sought
from tutti.dedup.exact import Clusters, exact_duplicates
from tutti.dedup.names import Names
from tutti.dedup.near import NEAR_VERSION, near_duplicates
from tutti.dedup.shards import Reader, Texts, reader, together

LOGIC_VERSION = f"dedup-2.{NEAR_VERSION}"
ROWS = 1 << 15

# Before the ids of what is compared: the order in which they stand for others.
EVALUATION, EARLIER, OWN = "0", "1", "2"

Stands = dict[str, tuple[str, How, float]]
"""By dropped document: the one that stands for it, why, and how similar its closest link is."""

NONE: Mapping[str, tuple[str, How, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Compared:
    """What documents are compared with, beside each other."""

    evaluation: Texts | None = None
    sought: Sought = field(default_factory=Sought)
    earlier: tuple[Texts, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """`path` is the file (tutti.corpus.duplicates); `documents` stay.

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


def find(own: Texts, near: float, scratch: Path, compared: Compared = Compared()) -> Found:
    """Compare documents with each other and with others.

    `near` is the similarity of near-duplicates, 0 for exact ones alone; only those, and n-grams, need the texts, which
    are never held together but for evaluation texts. `scratch` is an empty folder.
    """
    workers = len(os.sched_getaffinity(0))
    held = _holding(own, compared, workers) if compared.evaluation else {}
    readers = [reader(own.shards, without=own.without | held.keys(), before=OWN)]
    readers += [reader(each.shards, without=each.without, before=EARLIER) for each in compared.earlier]
    if compared.evaluation is not None:
        readers.append(reader(compared.evaluation.shards, before=EVALUATION))
    exact, documents = _exact(together(readers))
    dropped = frozenset(doc_id for cluster in exact for doc_id in cluster.dropped)
    links = _near(together(readers), dropped, near, scratch, workers) if near else {}
    stands = _own(through(exact, links), exact)
    left = {each.doc_id: (each.text, How.CONTAMINATED, each.share) for each in held.values()}
    return written(stands, documents, scratch, left)


def written(stands: Stands, documents: int, scratch: Path, held: Mapping[str, tuple[str, How, float]] = NONE) -> Found:
    """The file, and what is in it, of so many documents that were compared; `held` were left out before that."""
    path = scratch / "clusters.parquet"
    duplicates.write(_rows({**held, **stands}), path)
    why = [how for _, how, _ in stands.values()]
    kept_out = why.count(How.CONTAMINATED_NEAR)
    return Found(
        path,
        documents=documents - len(stands),
        duplicates=len(stands) - kept_out,
        near=why.count(How.NEAR) + why.count(How.EARLIER_NEAR),
        earlier=why.count(How.EARLIER) + why.count(How.EARLIER_NEAR),
        contaminated=len(held) + kept_out,
        clusters=len({kept for kept, how, _ in stands.values() if how is not How.CONTAMINATED_NEAR}),
    )


def _exact(read: Reader) -> tuple[Clusters, int]:
    """Equal documents, and how many are our own."""
    names = Names(batch["doc_id"] for batch in read(["doc_id"]))
    return exact_duplicates(read, names), names.beginning(OWN)


def _holding(own: Texts, compared: Compared, workers: int) -> dict[str, Contaminated]:
    """The documents that hold n-grams of evaluation texts, by id."""
    assert compared.evaluation is not None
    evaluation = Evaluation(reader(compared.evaluation.shards)(["doc_id", "text"]), compared.sought)
    batches = reader(own.shards, without=own.without)(["doc_id", "text"])
    return {each.doc_id: each for found in in_threads(evaluation.found, batches, workers) for each in found}


def through(exact: Clusters, near: Stands) -> Stands:
    """Both together: who stood for equal texts and was dropped later is stood for by another, and so are they."""
    found = dict(near)
    for cluster in exact:
        kept = near[cluster.kept][0] if cluster.kept in near else cluster.kept
        found |= {doc_id: (kept, How.EXACT, 1.0) for doc_id in cluster.dropped}
    return found


def _own(stands: Stands, exact: Clusters) -> Stands:
    """Of our own documents, without what is before ids, and with who stands for them.

    What is equal to a document of ours that is nearly the same as another's is nearly the same as that too.
    """
    equal = {doc_id: cluster.kept for cluster in exact for doc_id in cluster.dropped}
    found: Stands = {}
    for doc_id, (kept, how, jaccard) in stands.items():
        if doc_id.startswith(OWN):
            same = equal.get(doc_id, doc_id)
            if how is How.EXACT and not kept.startswith(OWN) and not same.startswith(kept[0]):
                _, how, jaccard = stands[same]
            found[doc_id[1:]] = (kept[1:], _HOW[kept[0], how], jaccard)
    return found


_HOW = {
    (OWN, How.EXACT): How.EXACT,
    (OWN, How.NEAR): How.NEAR,
    (EARLIER, How.EXACT): How.EARLIER,
    (EARLIER, How.NEAR): How.EARLIER_NEAR,
    (EVALUATION, How.EXACT): How.CONTAMINATED_NEAR,
    (EVALUATION, How.NEAR): How.CONTAMINATED_NEAR,
}


def _near(read: Reader, dropped: frozenset[str], threshold: float, scratch: Path, workers: int) -> Stands:
    folder = scratch / "near"
    folder.mkdir()
    total = texts = 0

    def without(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        nonlocal total, texts
        for batch in read(columns):
            # They are read three times: ids, all texts, texts once more. The texts take the time, so they count.
            texts += len(batch) if "text" in columns else 0
            total += 0 if texts else len(batch)
            if texts:
                progress.say(min(texts // 2, total), total, unit="documents")
            stay = [doc_id not in dropped for doc_id in batch["doc_id"].to_pylist()]
            yield batch if all(stay) else batch.filter(pa.array(np.array(stay)))

    found: Stands = {}
    for batch in near_duplicates(without, folder, threshold=threshold, workers=workers):
        for doc_id, kept, jaccard in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if doc_id != kept:
                found[doc_id] = (kept, How.NEAR, jaccard)
    return found


def _rows(stands: Stands) -> Iterator[pa.RecordBatch]:
    ids = sorted(stands)
    for begin in range(0, len(ids), ROWS):
        part = ids[begin : begin + ROWS]
        kept, how, jaccard = zip(*(stands[doc_id] for doc_id in part), strict=True)
        columns = (part, kept, [each.value for each in how], jaccard)
        yield pa.record_batch([pa.array(column) for column in columns], schema=duplicates.SCHEMA)
