"""Listing: what became of every page that a run read: kept, rejected and by what, a duplicate and of what.

Promises: the order is that of sources, whatever the order in which manifests came; what a manifest names is read whole
once and kept, so that the next part of a list costs little; it continues the list, though the run has come further.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tutti.chassis.errors import InvalidField, Refused, declare
from tutti.chassis.service import Host
from tutti.chassis.store.listing import packed, unpacked
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import STATE_CANCELLED, STATE_DONE, STATE_FAILED
from tutti.contracts.pipeline.v1 import Run
from tutti.corpus.documents.duplicates import How
from tutti.corpus.documents.stages import DocumentShardEntry
from tutti.lineage.graph import OF_RUN
from tutti.lineage.library import Library
from tutti.lineage.owners import run_of
from tutti.lineage.tables import Tables
from tutti.records.manifest import Kind

PREFIX = "documents/"
KEPT, REJECTED, DUPLICATE = "kept", "rejected", "duplicate"
HOWS = frozenset(how.value for how in How)
FURTHEST = (Kind.DEDUP, Kind.FILTER, Kind.INGEST)

declare({"NOTHING_READ": "the run has not read any documents yet, or will not; the message says why"})


@dataclass(frozen=True, order=True)
class Listed:
    """The outcome of a page: `kept`, `rejected/RULE`, `duplicate/near`; `document` is "" if it never was one.

    `stays`: the source of the document that stands for it, where this run read that one.
    """

    source: str
    document: str
    what: str
    detail: str
    stays: str = ""


@dataclass(frozen=True)
class DocumentQuery:
    """A query for pages of a run: `what` is a prefix of their outcomes, and the `source` contains this text."""

    run: str
    what: str
    source: str

    def holds(self, page: Listed) -> bool:
        wanted = self.what and f"{self.what}/"
        return self.source in page.source and any(f"{each}/".startswith(wanted) for each in said(page.what))

    def token(self, key: str, begin: int) -> str:
        """The place in a list: the manifest that it is of, and how many pages come before."""
        return packed(self.what, self.source, key, begin)

    def place(self, token: str) -> tuple[str, int]:
        """Raises InvalidField where the token is of another list."""
        match unpacked(token):
            case [self.what, self.source, str(key), int(begin)] if key and begin > 0:
                return key, begin
        raise no_token(token)


@cache
def said(what: str) -> tuple[str, ...]:
    """All that is so of a page of which `what` is: what is `duplicate/earlier-near` is `earlier`, and is `near`."""
    kind, _, how = what.partition("/")
    return (what, *(f"{kind}/{part}" for part in how.split("-") if how in HOWS))


def no_token(seen: str) -> InvalidField:
    return InvalidField("page_token", seen=seen, expected="next_page_token of the same run, `what` and `source`")


def unread(run: Run) -> Refused:
    """The refusal for a run whose documents cannot be listed."""
    stage = next((stage for stage in run.stages if stage.state != STATE_DONE), None)
    if stage is None or any(each.name == Kind.INGEST and each.state == STATE_DONE for each in run.stages):
        why = f"what {run.name} read is not known here yet; ask again in a moment"
    elif run.state == STATE_FAILED:
        why = f"{run.name} read nothing, it failed in {run.reason}"
    elif run.state == STATE_CANCELLED:
        why = f"{run.name} read nothing, it was cancelled in {stage.name}"
    else:
        why = f"{run.name} has read nothing yet, it is in {stage.name}; ask again later, or name another run"
    return Refused("NOTHING_READ", why)


@dataclass(frozen=True)
class StageKeys:
    """Keys of the data of a run's last stage; keys are "" for stages that it has not reached."""

    key: str
    shards: tuple[DocumentShardEntry, ...]
    rejections: str
    decisions: str = ""
    clusters: str = ""
    cuts: str = ""


class Listing:
    def __init__(self, host: Host, tables: Tables, library: Library) -> None:
        self._host, self._tables, self._library = host, tables, library

    def page(self, asked: DocumentQuery, token: str, *, size: int) -> tuple[list[Listed], str]:
        """So many of the pages that are asked for, from where a token leads, by source; and the token of the next ones.

        Raises NotFound for what is no run, Refused for one of which nothing was read or folded, InvalidField for a
        token of another list.
        """
        key, begin = asked.place(token) if token else ("", 0)
        if (chosen := self._chosen(asked.run, key)) is None:
            raise no_token(token) if token else unread(run_of(self._host, asked.run))
        every = self._library.once(f"listing of {chosen.key}", lambda: sorted(self._listed(chosen)))
        found = list(filter(asked.holds, every))
        end = begin + size
        return found[begin:end], asked.token(chosen.key, end) if end < len(found) else ""

    def fates(self, run: str, held: Mapping[str, Collection[str]]) -> dict[str, str]:
        """The outcomes of documents in a run, as in `Listed.what`; empty before it has looked for duplicates.

        `held`: by document shard those that are asked for. Of a shard that the run chose nothing among, such as one of
        evaluation texts, nothing became of them.
        """
        chosen = self._chosen(run)
        if chosen is None or not chosen.clusters:
            return {}
        fates = self._fates(chosen)
        return {doc_id: fates(doc_id)[0] for entry in chosen.shards for doc_id in held.get(entry.blob, ())}

    def _chosen(self, run: str, wanted: str = "") -> StageKeys | None:
        """The keys of the last stage of a run, or of the one with this manifest; None if there is none."""

        def read(unit: Unit) -> tuple[set[str], dict[Kind, list[tuple[str, str]]]]:
            made = {edge.child for edge in self._tables.edges_of(unit, [run], up=False) if edge.relation in OF_RUN}
            return made, {kind: self._tables.keys(unit, kind.value) for kind in FURTHEST}

        made, keys = self._host.units.run(read)
        for kind in FURTHEST:
            for key, resource in keys[kind]:
                if resource in made and wanted in ("", key):
                    return self._told(kind, key)
        return None

    def _told(self, kind: Kind, key: str) -> StageKeys:
        if kind is Kind.INGEST:
            ingest = self._library.ingest(key)
            return StageKeys(key, ingest.shards, ingest.rejections)
        if kind is Kind.FILTER:
            found = self._library.filter(key)
            return StageKeys(key, found.shards, found.rejections, found.decisions)
        dedup = self._library.dedup(key)
        return StageKeys(key, dedup.shards, dedup.rejections, dedup.decisions, dedup.clusters, dedup.cuts)

    def _listed(self, chosen: StageKeys) -> Iterator[Listed]:
        for rejection in self._library.json(chosen.rejections):
            yield Listed(rejection["path"], "", f"{REJECTED}/{rejection['reason']}", rejection["detail"])
        fates, stays = self._fates(chosen), self._stays(chosen)
        for entry in chosen.shards:
            for row in self._library.documents(entry):
                yield Listed(row.source, f"{PREFIX}{row.doc_id}", *fates(row.doc_id), stays.get(row.doc_id, ""))

    def _stays(self, chosen: StageKeys) -> dict[str, str]:
        """By document that was dropped the source of the one that stands for it."""
        duplicates = self._library.duplicates(chosen.clusters) if chosen.clusters else {}
        kept = {stands for stands, _, _ in duplicates.values()}
        rows = (row for entry in chosen.shards for row in self._library.documents(entry))
        sources = {row.doc_id: row.source for row in rows if row.doc_id in kept}
        return {dropped: sources[stands] for dropped, (stands, _, _) in duplicates.items() if stands in sources}

    def _fates(self, chosen: StageKeys) -> Callable[[str], tuple[str, str]]:
        """By document what became of it, and the detail."""
        decisions = self._library.decisions(chosen.decisions) if chosen.decisions else {}
        duplicates = self._library.duplicates(chosen.clusters) if chosen.clusters else {}
        cuts = self._library.cuts(chosen.cuts) if chosen.cuts else {}

        def fate(doc_id: str) -> tuple[str, str]:
            if decision := decisions.get(doc_id):
                return f"{REJECTED}/{decision.rule}", decision.seen
            if stands := duplicates.get(doc_id):
                kept, how, jaccard = stands
                what = REJECTED if How(how).contaminated else DUPLICATE
                return f"{what}/{how}", How(how).detail(jaccard, f"{PREFIX}{kept}")
            return KEPT, f"without {cuts[doc_id]:,} bytes that were cut out" if doc_id in cuts else ""

        return fate
