"""Reach: everything that some documents had a part in, and where their texts and tokens still lie.

Promises: nothing is stored for it; a run is told once it has looked for duplicates among them, a checkpoint while it
can be read; what could not be looked through, since it is gone, is named.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from tutti.chassis.errors import NotFound
from tutti.chassis.service import Host
from tutti.contracts.lineage.v1 import (
    Reach,
    ReachedCheckpoint,
    ReachedDataset,
    ReachedDocument,
    ReachedLine,
    ReachedRun,
)
from tutti.corpus.documents.decisions import RETRACTED_RULE
from tutti.corpus.documents.duplicates import How
from tutti.lineage.ancestry import place_of
from tutti.lineage.documents import PREFIX, Documents, ShardDocuments
from tutti.lineage.graph import OF_RUN, Edge, dataset_name
from tutti.lineage.library import OpenDataset
from tutti.lineage.listing import DUPLICATE, KEPT, REJECTED, Listing
from tutti.lineage.sightings import Shelf
from tutti.lineage.tables import Tables

RETRACTED = f"{REJECTED}/{RETRACTED_RULE}"
CONTAMINATED = {how.value for how in How if how.contaminated}


class Reaching:
    def __init__(self, host: Host, tables: Tables, documents: Documents, listing: Listing) -> None:
        self._host, self._tables, self._documents, self._listing = host, tables, documents, listing

    def reach(self, ids: Collection[str], limit: int) -> Reach:
        """The uses of documents by id; every list has at most `limit` entries. Raises NotFound for one that was never
        read.
        """
        held, gone = self._documents.holders(ids)
        known = {doc_id: row for each in held for doc_id, row in each.rows.items()}
        if unknown := sorted(set(ids) - known.keys()):
            raise gone[0] if gone else NotFound(f"{PREFIX}{unknown[0]}")
        read = self._read(held)
        makers = self._makers(read)
        answer = Reach(crawls=self._crawls(makers)[:limit])
        for doc_id, row in sorted(known.items()):
            ingests = sorted(name for name, found in read.items() if doc_id in found)
            answer.documents.append(ReachedDocument(document=f"{PREFIX}{doc_id}", source=row.source, ingests=ingests))
        runs = sorted({edge.parent for edge in makers if edge.relation in OF_RUN})
        answer.runs.extend(made for run in runs if (made := self._run(run, held)) is not None)
        there, lost = self._documents.kept()
        datasets = [each for each in there if _holds(each.train, ids) or _holds(each.validation, ids)]
        for each in sorted(datasets, key=lambda each: each.version):
            answer.datasets.append(_dataset(each, ids, self._learnt(each)))
        self._steps(answer, ids, {dataset_name(each.version) for each in datasets}, limit)
        makers_of = self._blobs(held, datasets, ids)
        for blob, names in sorted(makers_of.items()):
            answer.blobs.append(blob)
            answer.held.add(blob=blob, runs=self._users(names)[:limit])
        answer.gone.extend(sorted({each.key for each in (*gone, *lost)}))
        return _cut(answer, limit)

    def _blobs(
        self, held: Iterable[ShardDocuments], datasets: Iterable[OpenDataset], ids: Collection[str]
    ) -> dict[str, set[str]]:
        """The blobs that hold any of the documents, each with the ingests, datasets or indexes that it is of."""
        found: dict[str, set[str]] = {each.blob: set() for each in held}
        for name, blobs in self._documents.ingests().items():
            for blob in blobs & found.keys():
                found[blob].add(name)
        trained = set[str]()
        for each in datasets:
            name = dataset_name(each.version)
            trained |= {name} if _holds(each.train, ids) else set()
            for blob in _token_shards(each, ids):
                found.setdefault(blob, set()).add(name)
        for index in self._documents.indexes():
            if index.dataset in trained:
                found.setdefault(index.blob, set()).add(index.name)
        return found

    def _users(self, names: Collection[str]) -> list[str]:
        """The runs that made or reused one of these, or trained on it."""
        children = self._host.units.run(lambda unit: list(self._tables.edges_of(unit, sorted(names), up=False)))
        new = {*names, *(edge.child for edge in children if edge.relation == "trained")}
        found = set[str]()
        while new := {edge.parent for edge in self._makers(new) if edge.relation in OF_RUN}:
            found |= {name for name in new if name.startswith("runs/")}
        return sorted(found)

    def _read(self, held: Iterable[ShardDocuments]) -> dict[str, set[str]]:
        """By ingest the documents that it read."""
        found: dict[str, set[str]] = {}
        holders = {each.blob: set(each.rows) for each in held}
        for name, blobs in self._documents.ingests().items():
            if ids := set[str]().union(*(holders.get(blob, set()) for blob in blobs)):
                found[name] = ids
        return found

    def _makers(self, made: Iterable[str]) -> list[Edge]:
        names = sorted(made)
        return self._host.units.run(lambda unit: list(self._tables.edges_of(unit, names, up=True)))

    def _crawls(self, makers: Iterable[Edge]) -> list[str]:
        """The crawls that were read, and those before them whose archives hold what had not changed since."""
        found: set[str] = set()
        new = {edge.parent for edge in makers if edge.parent.startswith("crawls/")}
        while new := new - found:
            found |= new
            new = {edge.parent for edge in self._makers(new) if edge.relation == "revisited"}
        return sorted(found)

    def _learnt(self, dataset: OpenDataset) -> str:
        """The tokenizer of a dataset, if it was trained for it; "" if another dataset's was taken."""
        name, tokenizer = dataset_name(dataset.version), tokenizer_name(dataset)
        made = [edge for edge in self._makers([name, tokenizer]) if edge.relation == "made"]
        makers = {child: {edge.parent for edge in made if edge.child == child} for child in (name, tokenizer)}
        return tokenizer if not makers[tokenizer] or makers[name] & makers[tokenizer] else ""

    def _run(self, run: str, held: Iterable[ShardDocuments]) -> ReachedRun | None:
        """Their outcome in a run; None before it has looked for duplicates, or if it did so without them."""
        fates = self._listing.fates(run, {each.blob: each.rows for each in held})
        if not fates:
            return None
        counts = Counter(map(_counted, fates.values()))
        return ReachedRun(
            run=run,
            kept=counts[KEPT],
            duplicates=counts[DUPLICATE],
            rejected=counts[REJECTED],
            retracted=counts[RETRACTED],
        )

    def _steps(self, answer: Reach, ids: Collection[str], datasets: set[str], limit: int) -> None:
        """The steps that read them, and the checkpoints of their datasets."""
        steps: dict[tuple[str, int], set[int]] = {}
        first: dict[tuple[str, int], int] = {}
        for head in self._documents.newest():
            if not self._documents.datasets_of(head) & datasets:
                continue
            ancestry = self._documents.ancestry(head)
            seen = {sighting.step for doc_id in ids for sighting in self._documents.sightings(doc_id, head)}
            for step in seen:
                steps.setdefault(ancestry.line_of(step), set()).add(step)
            if seen:
                first[head.job, place_of(head.name)[0]] = min(seen)
        for (job, line), found in sorted(steps.items()):
            told = sorted(found)[:limit]
            answer.truncated |= len(told) < len(found)
            answer.lines.append(ReachedLine(job=job, line=line, steps=told, step_count=len(found)))
        for head in sorted(self._documents.heads(), key=lambda head: (head.job, place_of(head.name))):
            if self._documents.datasets_of(head) & datasets:
                line, step = place_of(head.name)
                read = first.get((head.job, line), step + 1) <= step
                answer.checkpoints.append(ReachedCheckpoint(checkpoint=head.name, read=read))


def _counted(fate: str) -> str:
    """As what a fate counts: what dedup left out for another text, whichever that is, is a duplicate."""
    by_dedup = fate.startswith(f"{REJECTED}/") and fate.partition("/")[2] in CONTAMINATED
    return fate if fate == RETRACTED else DUPLICATE if by_dedup else fate.partition("/")[0]


def _holds(shelf: Shelf, ids: Collection[str]) -> int:
    return sum(bool(shelf.samples_of(doc_id)) for doc_id in ids)


def tokenizer_name(dataset: OpenDataset) -> str:
    return f"tokenizers/{dataset.body.tokenizer_version.removeprefix('blake3:')}"


def _dataset(found: OpenDataset, ids: Collection[str], tokenizer: str) -> ReachedDataset:
    train, validation = _holds(found.train, ids), _holds(found.validation, ids)
    return ReachedDataset(dataset=dataset_name(found.version), tokenizer=tokenizer, train=train, validation=validation)


def _token_shards(found: OpenDataset, ids: Collection[str]) -> Iterable[str]:
    """The token shards that hold any of the documents."""
    for shelf, split in ((found.train, found.body.train), (found.validation, found.body.validation)):
        for shard, entry in zip(shelf.shards, split.shards, strict=True):
            if any(shard.samples_of(doc_id) for doc_id in ids):
                yield entry.blob


def _cut(answer: Reach, limit: int) -> Reach:
    for name in ("documents", "runs", "datasets", "lines", "checkpoints", "blobs", "held", "gone"):
        found: Any = getattr(answer, name)
        if len(found) > limit:
            del found[limit:]
            answer.truncated = True
    return answer
