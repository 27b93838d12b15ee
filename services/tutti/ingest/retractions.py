"""Retractions: pages that are left out of every dataset from now on, as if they had never been there.

Promises: what is retracted twice is one resource; what nobody ever read is refused; whether a document is retracted
follows from its id and source alone, so a page that is crawled again, with another text, is left out again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import DeadlineExceeded, InvalidField, NotFound, Refused
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.required import required
from tutti.chassis.service import Host
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.resources import Resource, check_name
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import WorkFailed
from tutti.chassis.work.work import Work, put_named
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.ingest.v1 import (
    CreateRetractionRequest,
    CreateRetractionResponse,
    FindRetractedRequest,
    FindRetractedResponse,
    Ingest,
    Retraction,
    RetractionSpec,
    WithdrawRetractionRequest,
)
from tutti.corpus.documents.documents import canonical_source
from tutti.corpus.documents.stages import DedupBody, DocumentShardEntry, IngestBody
from tutti.ingest.seeking import Seeker, Selection, ShardGone, SourcedDocument, form
from tutti.records.canonical import canonical_json, content_digest
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest
from tutti.staging import fetching

PREFIX = "documents/"
SHOWN = 10_000
MAX_SOURCE, MAX_REASON = 4_096, 1_000
_DOCUMENT = re.compile(r"documents/[0-9a-f]{64}")


def checked(spec: RetractionSpec) -> RetractionSpec:
    """The same with its source as documents have it. Raises InvalidField."""
    if bool(spec.source) == bool(spec.document):
        raise InvalidField(
            "spec.source", seen="both" if spec.source else "nothing", expected="a source or a document, and one alone"
        )
    if spec.document and not _DOCUMENT.fullmatch(spec.document):
        raise InvalidField("spec.document", seen=spec.document, expected="documents/ID of 64 digits of 0-9 and a-f")
    if len(spec.source) > MAX_SOURCE:
        raise InvalidField("spec.source", seen=spec.source, expected=f"at most {MAX_SOURCE} characters")
    if len(spec.reason) > MAX_REASON:
        raise InvalidField("spec.reason", seen=spec.reason, expected=f"at most {MAX_REASON} characters")
    source = canonical_source(spec.source) if spec.source else ""
    return RetractionSpec(source=source, document=spec.document, reason=spec.reason)


def name_of(spec: RetractionSpec) -> str:
    digest = content_digest({"source": spec.source, "document": spec.document}, kind="retraction")
    return f"retractions/{digest.removeprefix('blake3:')[:20]}"


def wanted_by(*specs: RetractionSpec) -> Selection:
    """The selection that these retractions leave out. A URL means the page, however it was written where it was
    read.
    """
    documents = frozenset(spec.document.removeprefix(PREFIX) for spec in specs if spec.document)
    return Selection(documents, frozenset(form(spec.source) for spec in specs if spec.source))


class Retractions:
    """The calls about retractions."""

    def __init__(self, host: Host, ingests: Work[Ingest]) -> None:
        self._host, self._ingests, self._seeker = host, ingests, Seeker(host.blobs)
        self.resource: Resource[Retraction] = Resource(
            host.metadata, "retractions", Retraction, {"withdrawn": lambda each: int(each.withdrawn)}
        )

    def create(self, request: CreateRetractionRequest, call: Call) -> CreateRetractionResponse:
        spec = checked(request.spec)
        name = name_of(spec)
        found = self._found(spec, call.deadline_seconds)

        def record(unit: Unit) -> tuple[Retraction, bool]:
            known = self.resource.find(unit, name)
            if known is not None and not known.withdrawn:
                return known, True
            made = Retraction(name=name, spec=spec) if known is None else self.resource.lock(unit, name)
            made.withdrawn = False
            made.ClearField("withdrawn_at")
            made.retracted_at.FromDatetime(unit.now)
            if request.validate_only:
                return made, False
            put = self.resource.create(unit, made, request) if known is None else self.resource.put(unit, made)
            return put, False

        retraction, already = self._host.units.run(record)
        return CreateRetractionResponse(
            retraction=retraction,
            already=already,
            documents=[f"{PREFIX}{doc_id}" for doc_id in islice(found, SHOWN)],
            document_count=len(found),
        )

    def withdraw(self, request: WithdrawRetractionRequest) -> Retraction:
        name = check_name("retractions", request.name)

        def end(unit: Unit) -> Retraction:
            found = self.resource.lock(unit, name)
            if found.withdrawn:
                return found
            found.withdrawn = True
            found.withdrawn_at.FromDatetime(unit.now)
            return found if request.validate_only else self.resource.put(unit, found)

        return self._host.units.run(end)

    def find(self, request: FindRetractedRequest, call: Call) -> FindRetractedResponse:
        """The retracted documents of an ingest, or of a dedup's result. Without retractions this costs one read of a
        table.
        """
        required(request, "manifest_key", "content_digest")
        active = self._host.units.run(lambda unit: self.resource.select(unit, withdrawn=0))
        if not active:
            return FindRetractedResponse()
        wanted = wanted_by(*(each.spec for each in active))
        body = self._body(request.manifest_key)
        found = {each.doc_id for each in self._seek(body.shards, wanted, call.deadline_seconds)}
        if found and isinstance(body, DedupBody):
            found -= self._left_out(body)
        if not found:
            return FindRetractedResponse()
        key = put_named(self._host.blobs, "ingest/retracted", canonical_json(sorted(found)), ".json")
        return FindRetractedResponse(retracted_key=key, documents=len(found))

    def export(self, unit: Unit) -> Iterator[CanonicalLine]:
        for each in self.resource.select(unit):
            content = {"source": each.spec.source, "document": each.spec.document, "withdrawn": each.withdrawn}
            yield CanonicalLine(each.name, content)

    def _read(self) -> list[DocumentShardEntry]:
        """The shards of all ingests, each once; those of an ingest whose manifest is gone hold nothing any more."""
        done = self._host.units.run(lambda unit: self._ingests.resource.select(unit, state=int(STATE_DONE)))
        found: dict[str, DocumentShardEntry] = {}
        for key in dict.fromkeys(each.result.manifest_key for each in done):
            try:
                found |= {shard.blob: shard for shard in self._body(key).shards}
            except NotFound:
                continue
        return list(found.values())

    def _found(self, spec: RetractionSpec, seconds: float) -> list[str]:
        """The ids that a spec names; nothing of an active retraction whose documents are gone. Raises NotFound."""
        try:
            return self._named(spec, seconds)
        except NotFound:
            known = self._host.units.run(lambda unit: self.resource.find(unit, name_of(spec)))
            if known is None or known.withdrawn:
                raise
            return []

    def _named(self, spec: RetractionSpec, seconds: float) -> list[str]:
        """The ids that a spec names, of all ingests. Raises NotFound, or ShardGone where they may be in one that is."""
        wanted, shards, found, gone = wanted_by(spec), self._read(), set[str](), None
        check = _within(self._host.clock.monotonic, seconds, len(shards))
        for shard in shards:
            try:
                found |= {each.doc_id for each in self._seeker.documents([shard], wanted, check)}
            except ShardGone as error:
                gone = error
        if not found:
            raise gone or NotFound(spec.source or spec.document)
        return sorted(found)

    def _body(self, manifest_key: str) -> IngestBody | DedupBody:
        try:
            found = Manifest.decode(self._host.blobs.get(manifest_key), expected=(Kind.INGEST, Kind.DEDUP))
            return IngestBody.read(found) if found.kind == Kind.INGEST else DedupBody.read(found)
        except BlobMissing as error:
            raise NotFound(manifest_key) from error
        except CorpusError as error:
            raise Refused("SHARD_UNREADABLE", f"{manifest_key} is damaged: {error}; run its ingest again") from error

    def _left_out(self, kept: DedupBody) -> frozenset[str]:
        """The documents of its shards that a dedup did not keep."""
        try:
            return fetching.rejected(self._host.blobs, kept.decisions) | fetching.dropped(
                self._host.blobs, kept.clusters
            )
        except WorkFailed as error:
            raise Refused("SHARD_UNREADABLE", error.reason) from error

    def _seek(
        self, shards: Sequence[DocumentShardEntry], wanted: Selection, seconds: float
    ) -> Iterator[SourcedDocument]:
        return self._seeker.documents(shards, wanted, _within(self._host.clock.monotonic, seconds, len(shards)))


def _within(monotonic: Callable[[], float], seconds: float, shards: int) -> Callable[[], None]:
    """Raises DeadlineExceeded once the caller has waited so long; what was looked at by then is remembered."""
    until = monotonic() + seconds

    def check() -> None:
        if monotonic() >= until:
            raise DeadlineExceeded(
                f"the documents of {shards} shards were not looked through within {seconds:.0f} s; ask again, it goes "
                f"on where it was"
            )

    return check
