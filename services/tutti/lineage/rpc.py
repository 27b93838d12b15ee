"""The calls that lineage answers."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice

from tutti.backbone import Isolation
from tutti.chassis.errors import InvalidField, NotFound
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import limit_of, required
from tutti.chassis.service import Host
from tutti.chassis.store.unit import Unit
from tutti.contracts.lineage.v1 import (
    DIRECTION_DOWN,
    Document,
    Graph,
    ListDocumentsRequest,
    ListDocumentsResponse,
    ListedDocument,
    Reach,
    RebuildGraphRequest,
    ShowDocumentRequest,
    ShowGraphRequest,
    ShowReachRequest,
    TraceDocumentRequest,
    TraceDocumentResponse,
    TraceRequest,
    TraceResponse,
    TraceStepRequest,
    TraceStepResponse,
    TraceTextRequest,
    TraceTextResponse,
)
from tutti.contracts.lineage.v1 import Edge as EdgeMessage
from tutti.contracts.lineage.v1 import Sighting as SightingMessage
from tutti.contracts.lineage.v1 import Vertex as VertexMessage
from tutti.lineage import tenancy
from tutti.lineage.ancestry import place_of
from tutti.lineage.documents import PREFIX, Documents
from tutti.lineage.folding import Folding
from tutti.lineage.graph import Edge, Vertex, Walk, dataset_name, kind_of, walk
from tutti.lineage.library import BlobGone, DocumentRow
from tutti.lineage.listing import DocumentQuery, Listing
from tutti.lineage.reach import Reaching
from tutti.lineage.sightings import Sighting
from tutti.lineage.tables import Tables
from tutti.lineage.texts import Texts

LIMIT, SIGHTINGS, PAGE = 1000, 10_000, 1000
CHARACTERS = 1 << 20  # of a text that is shown, at most
MOST, MOST_SIGHTINGS = 10_000, 100_000
SPANS, HOLDERS = 100, 3  # of a text
MOST_SPANS, MOST_HOLDERS, SHOWN_STEPS = 1000, 10, 20


class LineageApi:
    def __init__(
        self, host: Host, tables: Tables, documents: Documents, listing: Listing, texts: Texts, folding: Folding
    ) -> None:
        self._host, self._tables, self._documents, self._listing = host, tables, documents, listing
        self._reaching = Reaching(host, tables, documents, listing)
        self._texts, self._folding = texts, folding

    def ShowDocument(self, request: ShowDocumentRequest, call: Call) -> Document:
        required(request, "document")
        try:
            row, *others = self._documents.find(request.document)
        except (NotFound, BlobGone):
            source, fate = self._documents.rejected(request.document)
            if not fate:
                raise
            return Document(source=source, fate=fate)
        text = self._documents.text(row)
        return Document(
            name=f"{PREFIX}{row.doc_id}",
            source=row.source,
            title=row.title,
            shard=row.shard,
            characters=len(text),
            text=text[:CHARACTERS],
            fate=self._documents.fate(row.doc_id),
            versions=_names(others),
        )

    def ShowReach(self, request: ShowReachRequest, call: Call) -> Reach:
        required(request, "documents")
        if len(request.documents) > MOST:
            raise InvalidField("documents", seen=len(request.documents), expected=f"at most {MOST}")
        ids = {name.removeprefix(PREFIX) for name in request.documents}
        return self._reaching.reach(ids, limit_of(request, default=LIMIT, most=MOST))

    def ShowGraph(self, request: ShowGraphRequest, call: Call) -> Graph:
        return self._host.units.run(self._graph, isolation=Isolation.READ_COMMITTED)

    def RebuildGraph(self, request: RebuildGraphRequest, call: Call) -> Graph:
        if not request.validate_only:
            self._host.units.run(self._folding.begin_rebuild)
        return self._host.units.run(self._graph, isolation=Isolation.READ_COMMITTED)

    def _graph(self, unit: Unit) -> Graph:
        return Graph(**asdict(self._folding.rebuild.extent(unit)))

    def ListDocuments(self, request: ListDocumentsRequest, call: Call) -> ListDocumentsResponse:
        required(request, "run")
        asked = DocumentQuery(request.run, request.what, request.source)
        found, token = self._listing.page(asked, request.page_token, size=min(request.page_size or PAGE, MOST))
        listed = [
            ListedDocument(
                source=each.source, document=each.document, what=each.what, detail=each.detail, stays=each.stays
            )
            for each in found
        ]
        return ListDocumentsResponse(documents=listed, next_page_token=token)

    def Trace(self, request: TraceRequest, call: Call) -> TraceResponse:
        required(request, "name", "direction")
        up, limit = request.direction != DIRECTION_DOWN, limit_of(request, default=LIMIT, most=MOST)
        if tenancy.hidden(self._host, [request.name], call.principal):
            raise NotFound(request.name)
        known = self._host.units.run(lambda unit: self._tables.vertex(unit, request.name))
        if known is None:
            row, *others = self._documents.find(request.name)
            answer = self._trace_document(row, call.principal, up=up, limit=limit)
            answer.versions.extend(_names(others))
            return answer
        found = self._walk(request.name, call.principal, up=up, limit=limit)
        extra: dict[str, Vertex] = {}
        gone: list[BlobGone] = []
        if up and known.kind in ("checkpoint", "dataset"):
            ids, gone = self._pages(known)
            extra = show(known, ids, self._documents.rows(ids), found, limit)
        return self._answer(found, extra, gone)

    def TraceDocument(self, request: TraceDocumentRequest, call: Call) -> TraceDocumentResponse:
        required(request, "document")
        limit = limit_of(request, default=SIGHTINGS, most=MOST_SIGHTINGS)
        try:
            row, *others = self._documents.find(request.document)
        except (NotFound, BlobGone):
            _, fate = self._documents.rejected(request.document)
            if not fate:
                raise
            return TraceDocumentResponse(fate=fate)
        answer = TraceDocumentResponse(versions=_names(others))
        found = list(islice(self._documents.told(row.doc_id, request.job, request.until_step), limit + 1))
        answer.sightings.extend(_message(*each, row.source) for each in found[:limit])
        answer.truncated = len(found) > limit
        answer.checkpoints.extend(self._documents.seen_by(row.doc_id))
        answer.gone.extend(_keys(self._documents.kept()[1]))
        if not answer.sightings:
            answer.fate = self._documents.fate(row.doc_id)
        return answer

    def TraceText(self, request: TraceTextRequest, call: Call) -> TraceTextResponse:
        required(request, "text", "within")
        limit = limit_of(request, default=SPANS, most=MOST_SPANS)
        if request.documents > MOST_HOLDERS:
            raise InvalidField("documents", seen=request.documents, expected=f"at most {MOST_HOLDERS}")
        traced = self._texts.trace(
            request.text,
            request.within,
            least=request.least,
            limit=limit,
            documents=request.documents or HOLDERS,
        )
        found = traced.passages
        rows = self._documents.rows({document for passage in found.found for document in passage.documents})
        answer = TraceTextResponse(
            dataset=traced.datasets[0],
            datasets=traced.datasets,
            unindexed=traced.unindexed,
            tokens=found.tokens,
            truncated=found.truncated,
        )
        for each in found.found:
            passage = answer.passages.add(begin=each.begin, end=each.end, tokens=each.tokens, count=each.count)
            for doc_id in each.documents:
                steps = traced.steps.get(doc_id, [])
                passage.documents.add(
                    document=f"{PREFIX}{doc_id}",
                    source=rows[doc_id].source if doc_id in rows else "",
                    steps=steps[:SHOWN_STEPS],
                    step_count=len(steps),
                )
        return answer

    def TraceStep(self, request: TraceStepRequest, call: Call) -> TraceStepResponse:
        required(request, "job", "step")
        places = {place_of(head.name): head for head in self._documents.newest(request.job)}
        last, head = next(((step, head) for (line, step), head in places.items() if line == request.line), (0, None))
        if head is None:
            raise NotFound(f"a checkpoint of line {request.line} of {request.job}")
        if not 1 <= request.step <= last:
            raise InvalidField("step", seen=request.step, expected=f"1 to {last}, the newest committed step")
        job, line = self._documents.ancestry(head).line_of(request.step)
        found, gone = self._documents.step(head, request.step)
        rows = self._documents.rows({sighting.document for sighting in found})
        sources = {doc_id: row.source for doc_id, row in rows.items()}
        seen = [_message(job, line, each, sources.get(each.document, "")) for each in found]
        return TraceStepResponse(sightings=seen, gone=_keys(gone))

    def _walk(self, name: str, principal: Principal, *, up: bool, limit: int, first: Sequence[Edge] = ()) -> Walk:
        """A walk over what exists for a caller; `first` are the edges of `name`, where it is in no table."""

        def read(unit: Unit, without: frozenset[str]) -> Walk:
            def neighbours(names: list[str]) -> Iterator[Edge]:
                edges = iter(first) if first and names == [name] else self._tables.edges_of(unit, names, up=up)
                return (edge for edge in edges if without.isdisjoint((edge.parent, edge.child)))

            return walk(name, up=up, limit=limit, neighbours=neighbours, readers=bool(first))

        return tenancy.shown(
            self._host, principal, lambda without: self._host.units.run(lambda unit: read(unit, without))
        )

    def _trace_document(self, row: DocumentRow, principal: Principal, *, up: bool, limit: int) -> TraceResponse:
        """A document came from every shard that holds it; what came of it are the checkpoints whose steps read it."""
        name = f"{PREFIX}{row.doc_id}"
        extra = {name: Vertex(name, "document", f"blake3:{row.doc_id}", row.source)}
        if up:
            held, gone = self._documents.holders({row.doc_id})
            first = [Edge(each.rows[row.doc_id].shard, name, "holds") for each in held]
            return self._answer(self._walk(name, principal, up=True, limit=limit, first=first), extra, gone)
        found = Walk([name])
        there, gone = self._documents.kept()
        for each in (each for each in there if each.train.samples_of(row.doc_id)):
            found.edges.append(Edge(name, dataset_name(each.version), "packed"))
            found.names.append(dataset_name(each.version))
        for checkpoint in self._documents.seen_by(row.doc_id):
            found.edges.append(Edge(name, checkpoint, "trained"))
            found.names.append(checkpoint)
        found.truncated = len(found.names) > limit
        found.names = found.names[:limit]
        return self._answer(found, extra, gone)

    def _pages(self, known: Vertex) -> tuple[set[str], list[BlobGone]]:
        """The documents that a checkpoint's steps read, or that a dataset packed to train on; and what is gone."""
        if known.kind == "checkpoint":
            head = next((head for head in self._documents.heads() if head.name == known.name), None)
            return self._documents.read_by(head) if head else (set(), [])
        there, gone = self._documents.kept({known.name})
        return {doc_id for each in there for doc_id in each.train.documents()}, gone

    def _answer(self, found: Walk, extra: dict[str, Vertex], gone: Iterable[BlobGone]) -> TraceResponse:
        vertices = self._host.units.run(lambda unit: self._tables.vertices_of(unit, found.names)) | extra
        shown = [vertices.get(name) or Vertex(name, kind_of(name)) for name in found.names]
        return TraceResponse(
            vertices=[VertexMessage(name=v.name, kind=v.kind, digest=v.digest, label=v.label) for v in shown],
            edges=[EdgeMessage(parent=e.parent, child=e.child, relation=e.relation) for e in found.edges],
            truncated=found.truncated,
            gone=_keys(gone),
        )


def show(
    known: Vertex, ids: Collection[str], rows: Mapping[str, DocumentRow], found: Walk, limit: int
) -> dict[str, Vertex]:
    """Add documents to a walk up; one without a row, since its ingest is not folded yet, has no label and no shard."""
    extra: dict[str, Vertex] = {}
    for doc_id in sorted(ids):
        if len(found.names) >= limit:
            found.truncated = True
            break
        name, row = f"{PREFIX}{doc_id}", rows.get(doc_id)
        extra[name] = Vertex(name, "document", f"blake3:{doc_id}", row.source if row else "")
        found.names.append(name)
        found.edges.append(Edge(name, known.name, "trained" if known.kind == "checkpoint" else "packed"))
        found.edges += [Edge(row.shard, name, "holds")] if row else []
    return extra


def _names(rows: Iterable[DocumentRow]) -> list[str]:
    return [f"{PREFIX}{row.doc_id}" for row in rows]


def _keys(gone: Iterable[BlobGone]) -> list[str]:
    return sorted({each.key for each in gone})


def _message(job: str, line: int, sighting: Sighting, source: str) -> SightingMessage:
    return SightingMessage(
        job=job,
        line=line,
        step=sighting.step,
        leaf=sighting.leaf,
        row=sighting.row,
        sample=sighting.sample,
        document=f"{PREFIX}{sighting.document}",
        dataset=dataset_name(sighting.dataset),
        source=source,
    )
