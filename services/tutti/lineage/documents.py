"""Documents: found by id or source path in the manifests, followed to the datasets and checkpoints that read them.

Promises: below a shard nothing is stored. An id is looked for only in shards whose range of ids holds it; a source
path in all of them.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import TypeVar

from tutti.chassis.errors import NotFound, Unavailable
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.corpus.documents.duplicates import How
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, FilterBody
from tutti.lineage import naming, sightings
from tutti.lineage.ancestry import Ancestry, ancestry, job_of, place_of
from tutti.lineage.graph import dataset_name
from tutti.lineage.library import BlobGone, DocumentRow, Library, OpenDataset
from tutti.lineage.owners import evaluated, ingests_of_runs, newest_runs
from tutti.lineage.sightings import Sighting
from tutti.lineage.tables import Tables
from tutti.model.training import Training
from tutti.records.manifest import Kind

PREFIX = "documents/"
EVALUATES = "an evaluation text; it stays in use until it is taken out of the folder"
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Head:
    """A checkpoint with a ledger: `name`, and its manifest's key."""

    name: str
    key: str

    @property
    def job(self) -> str:
        return job_of(self.name)


@dataclass(frozen=True)
class ShardDocuments:
    """Some of the documents of a document shard, by id."""

    blob: str
    rows: dict[str, DocumentRow]


@dataclass(frozen=True)
class Indexed:
    """An index by name, the dataset that it is of, and its blob."""

    name: str
    dataset: str
    blob: str


def _there(read: Callable[[K], T], keys: Iterable[K]) -> tuple[list[T], list[BlobGone]]:
    """The values that can be read, and the blobs of those that are gone."""
    found, gone = list[T](), list[BlobGone]()
    for key in keys:
        try:
            found.append(read(key))
        except BlobGone as error:
            gone.append(error)
    return found, gone


class Documents:
    def __init__(self, host: Host, tables: Tables, library: Library) -> None:
        self._host, self._tables, self._library = host, tables, library

    def find(self, wanted: str) -> list[DocumentRow]:
        """By `documents/{doc_id}`, doc_id, the beginning of one, source or a part of it as in `naming`.

        Several where a source was read with several texts, those that newer runs read first. Raises NotFound, or
        BlobGone where it may be in a shard that is, and InvalidField where several sources are meant.
        """
        doc_id = wanted.removeprefix(PREFIX)
        held, _ = self.holders({doc_id})
        if held:
            return [held[0].rows[doc_id]]
        shards, gone = _there(self._library.documents, self._shards())
        every = [row for shard in shards for row in shard]
        begun = {row.doc_id: row for row in every if naming.is_beginning(doc_id) and row.doc_id.startswith(doc_id)}
        if len(begun) == 1:
            return list(begun.values())
        source = naming.meant(wanted, (row.source for row in every))
        if not source:
            near = () if wanted.startswith(PREFIX) else naming.near(wanted, (row.source for row in every))
            raise gone[0] if gone else NotFound(wanted, nearest=near)
        return self._newest_first([row for row in every if row.source == source])

    def _newest_first(self, rows: list[DocumentRow]) -> list[DocumentRow]:
        """Each document once; where there are several the runs are asked which read them, and when."""
        rows = sorted(rows, key=lambda row: row.doc_id)
        if rows[0].doc_id != rows[-1].doc_id:
            shards = {name: self._library.ingest(key).shards for key, name in self._keys(Kind.INGEST)}
            read = [entry.resource for name in ingests_of_runs(self._host) for entry in shards.get(name, ())]
            ages = {shard: age for age, shard in reversed(list(enumerate(read)))}
            rows.sort(key=lambda row: ages.get(row.shard, len(read)))
        found: dict[str, DocumentRow] = {}
        for row in rows:
            found.setdefault(row.doc_id, row)
        return list(found.values())

    def rejected(self, wanted: str) -> tuple[str, str]:
        """The source of a page that never became a document, and the reason; both "" if there is none. Raises
        InvalidField.
        """
        lists = [self._library.ingest(key).rejections for key in self._manifests(Kind.INGEST)]
        every = {each["path"]: each for key in dict.fromkeys(lists) for each in self._library.json(key)}
        source = naming.meant(wanted, every)
        return (source, f"rejected: {every[source]['reason']}, {every[source]['detail']}") if source else ("", "")

    def text(self, row: DocumentRow) -> str:
        """The text of a document, of any shard that holds it. Raises BlobGone when none is left."""
        held, gone = self.holders({row.doc_id})
        entries = {entry.blob: entry for entry in self._shards()}
        for each in held:
            try:
                return self._library.text(entries[each.blob], row.doc_id)
            except BlobGone as error:
                gone.append(error)
        raise gone[0]

    def rows(self, ids: Collection[str]) -> dict[str, DocumentRow]:
        """The rows of these documents, of those that an ingest tells of. Raises BlobGone where one may be in such."""
        found: dict[str, DocumentRow] = {}
        held, gone = self.holders(ids)
        for each in held:
            found = each.rows | found
        if gone and set(ids) - found.keys():
            raise gone[0]
        return found

    def holders(self, ids: Collection[str]) -> tuple[list[ShardDocuments], list[BlobGone]]:
        """Every document shard that holds some of these documents, with them; and those that may, and are gone."""
        wanted, ordered = set(ids), sorted(ids)

        def may_hold(entry: DocumentShardEntry) -> bool:
            at = bisect_left(ordered, entry.info.first_doc_id)
            return at < len(ordered) and ordered[at] <= entry.info.last_doc_id

        def held(entry: DocumentShardEntry) -> ShardDocuments:
            rows = self._library.documents(entry)
            return ShardDocuments(entry.blob, {row.doc_id: row for row in rows if row.doc_id in wanted})

        found, gone = _there(held, filter(may_hold, self._shards()))
        return [each for each in found if each.rows], gone

    def ingests(self) -> dict[str, set[str]]:
        """By ingest, the blobs of its document shards."""
        return {
            name: {entry.blob for entry in self._library.ingest(key).shards} for key, name in self._keys(Kind.INGEST)
        }

    def datasets_of(self, head: Head) -> set[str]:
        """The names of the datasets that a checkpoint was trained on."""
        return {dataset_name(digest) for digest in self._library.checkpoint(head.key).training.datasets}

    def _keys(self, kind: Kind) -> list[tuple[str, str]]:
        return self._host.units.run(lambda unit: self._tables.keys(unit, kind.value))

    def _manifests(self, kind: Kind) -> list[str]:
        """The keys, each once however many resources name it."""
        return list(dict.fromkeys(key for key, _ in self._keys(kind)))

    def _shards(self) -> list[DocumentShardEntry]:
        found: dict[str, DocumentShardEntry] = {}
        for key in self._manifests(Kind.INGEST):
            found |= {entry.blob: entry for entry in self._library.ingest(key).shards}
        return [found[blob] for blob in sorted(found)]

    def kept(self, names: Collection[str] | None = None) -> tuple[list[OpenDataset], list[BlobGone]]:
        """The datasets (of these names) whose blobs are there, and of each other one that is gone."""
        wanted = [key for key, name in self._keys(Kind.DATASET) if names is None or name in names]
        return _there(self._library.dataset, dict.fromkeys(wanted))

    def _read_of(self, training: Training) -> tuple[list[OpenDataset], list[BlobGone]]:
        """The same of the datasets of a training."""
        return self.kept({dataset_name(digest) for digest in training.datasets})

    def indexes(self) -> list[Indexed]:
        """Every index; its blob holds the tokens of all documents that are trained on."""
        found = [(name, *self._library.indexed(key)) for key, name in self._keys(Kind.INDEX)]
        return [Indexed(name, dataset, body.blob) for name, dataset, body in found]

    def heads(self, job: str = "") -> list[Head]:
        """All checkpoints (of a job), by name."""
        prefix = f"checkpoints/{job.removeprefix('jobs/')}/" if job else "checkpoints/"
        return [Head(name, key) for key, name in self._keys(Kind.CHECKPOINT) if name.startswith(prefix)]

    def newest(self, job: str = "") -> list[Head]:
        """The checkpoint with the most steps of each line of a job."""
        best: dict[tuple[str, int], tuple[int, Head]] = {}
        for head in self.heads(job):
            line, step = place_of(head.name)
            if (head.job, line) not in best or best[head.job, line][0] < step:
                best[head.job, line] = (step, head)
        return [head for _, head in sorted(best.values(), key=lambda each: each[1].name)]

    def ancestry(self, head: Head) -> Ancestry:
        """The checkpoints that one descends from. Raises Unavailable while not all of them are folded."""

        def read(unit: Unit) -> Ancestry:
            found, job = Ancestry((head.name,)), ""
            while job != job_of(found.oldest):
                job = job_of(found.oldest)
                parents = self._tables.parents(unit, f"checkpoints/{job.removeprefix('jobs/')}/")
                found = Ancestry((*ancestry(found.oldest, parents).names, *found.names[1:]))
            if self._tables.vertex(unit, found.oldest) is None:
                raise Unavailable(f"{found.oldest}, which {head.name} descends from, is not folded yet; ask again")
            return found

        return self._host.units.run(read)

    def sightings(self, document: str, head: Head, *, until_step: int = 0) -> Iterator[Sighting]:
        """The places where the line that ends at a checkpoint read a document, in order, each computed on demand.

        In the datasets whose blobs are there; `kept` tells of the others.
        """
        body = self._library.checkpoint(head.key)
        until = min(body.step, until_step) if until_step else body.step
        return merge(
            *(
                sightings.of_document(each.train, body.scalars.ledger, document, until_step=until)
                for each in self._read_of(body.training)[0]
            )
        )

    def told(self, document: str, job: str = "", until_step: int = 0) -> Iterator[tuple[str, int, Sighting]]:
        """The places where the lines of a job read a document, each once: job, line and place, in their order."""

        def of_line(head: Head) -> Iterator[tuple[str, int, Sighting]]:
            lines = self.ancestry(head)  # a line has a larger number than the one that it branched from
            for found in self.sightings(document, head, until_step=until_step):
                maker, line = lines.line_of(found.step)
                if maker == head.job:  # the lines of the job that it continues have those before
                    yield maker, line, found

        heads = self.newest(job)
        return (each for each, _ in groupby(merge(*map(of_line, heads))))  # lines share what is before a branch

    def seen_by(self, document: str) -> list[str]:
        """The checkpoints that descend from a document, by job, line and step: those that read a token of it."""
        first: dict[tuple[str, int], int] = {}
        for head in self.newest():
            if found := next(self.sightings(document, head), None):
                first[head.job, place_of(head.name)[0]] = found.step
        places = sorted((head.job, *place_of(head.name), head.name) for head in self.heads())
        return [name for job, line, step, name in places if first.get((job, line), step + 1) <= step]

    def read_by(self, head: Head) -> tuple[set[str], list[BlobGone]]:
        """The documents that the steps up to a checkpoint read; and the blobs of those that cannot be told."""
        body = self._library.checkpoint(head.key)
        there, gone = self._read_of(body.training)
        ledger, until = body.scalars.ledger, body.step
        return set[str]().union(*(sightings.read_by(each.train, ledger, until_step=until) for each in there)), gone

    def step(self, head: Head, step: int) -> tuple[list[Sighting], list[BlobGone]]:
        """The documents that one step read, and the missing blobs of those that cannot be determined."""
        body = self._library.checkpoint(head.key)
        there, gone = self._read_of(body.training)
        return sorted(s for each in there for s in sightings.of_step(each.train, body.scalars.ledger, step)), gone

    def fate(self, document: str) -> str:
        """The reason why no step read a document: left out, a duplicate, held out, for evaluation; empty if unknown.

        Of runs that chose otherwise the newest counts.
        """
        doc_id = document.removeprefix(PREFIX)
        blobs = {each.blob for each in self.holders({doc_id})[0]}
        choices = (body for body in self._choices() if not blobs.isdisjoint(shard.blob for shard in body.shards))
        newest = next(choices, None)
        if newest and (fate := self._chosen(newest, doc_id)):
            return fate
        for each in self.kept()[0]:
            if each.validation.samples_of(doc_id):
                return f"held out for validation in {dataset_name(each.version)}"
        read = {name for name, found in self.ingests().items() if not blobs.isdisjoint(found)}
        return EVALUATES if newest is None and evaluated(self._host, read) else ""

    def _choices(self) -> Iterator[FilterBody | DedupBody]:
        """The selections of filters and dedups, those of newer runs first, and for a run the later stage first."""
        named = [stage.resource for run in newest_runs(self._host) for stage in reversed(run.stages)]
        ages = {name: age for age, name in reversed(list(enumerate(named)))}
        found = [(kind, key, name) for kind in (Kind.DEDUP, Kind.FILTER) for key, name in self._keys(kind)]
        for kind, key, _ in sorted(found, key=lambda each: ages.get(each[2], len(ages))):
            yield self._library.dedup(key) if kind is Kind.DEDUP else self._library.filter(key)

    def _chosen(self, body: FilterBody | DedupBody, doc_id: str) -> str:
        """The reason why a document was left out there; "" if it was kept."""
        decision = self._library.decisions(body.decisions).get(doc_id) if body.decisions else None
        if decision is not None:
            return f"rejected by the rule {decision}"
        stands = self._library.duplicates(body.clusters).get(doc_id) if isinstance(body, DedupBody) else None
        if stands is None:
            return ""
        kept, how, jaccard = stands
        return How(how).fate(jaccard, f"{PREFIX}{kept}{self._page(kept)}")

    def _page(self, doc_id: str) -> str:
        """The source of a document in brackets; "" where no ingest has it any more."""
        with contextlib.suppress(BlobGone):
            if row := self.rows({doc_id}).get(doc_id):
                return f" ({row.source})"
        return ""
