"""Folding: resources and manifests of all owners become the graph.

Promises: events only make it quicker. Every owner is asked at start and at every interval how often its resources have
changed, and the kinds that have are listed, so nothing is missed.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from google.protobuf.message import Message

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.events.event import Event
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Finding, Host
from tutti.chassis.store.unit import Unit
from tutti.chassis.work.reconciler import Reconciler, Trouble
from tutti.contracts.admin.v1 import ListChangesRequest
from tutti.contracts.admin.v1.stubs import AdminStub
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
)
from tutti.corpus.documents.stages import IngestBody
from tutti.lineage.graph import KINDS, Testimony, Vertex, of_parents, of_shards, testimony
from tutti.lineage.rebuild import Rebuild
from tutti.lineage.tables import Noted, Reading, Tables
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest

OWNERS, MANIFESTS = "owners", "manifests"
BATCH, SHOWN = 50, 5
REST = 50
"""The time until the lists of owners are read again, as a multiple of the time that it took: a fiftieth of a processor
is enough to check resources that came by events, however many there are.
"""
GONE = (CHECKPOINT_STATE_PRUNED, CHECKPOINT_STATE_QUARANTINED)


def manifest_of(resource: Message) -> tuple[str, str]:
    """The key and kind of the manifest that a resource names and that should be there; two "" for none."""
    kind = kind_of(type(resource))
    if isinstance(resource, Checkpoint) and resource.state != CHECKPOINT_STATE_COMMITTED:
        return "", ""
    if isinstance(resource, Checkpoint) and resource.folder_digest:
        return resource.manifest_key, Kind.IMPORT
    return kind.manifest_key(resource), kind.manifest


def testimony_of(manifest: Manifest, resource: str) -> Testimony:
    """The content of a manifest that its resource does not have."""
    if manifest.kind == Kind.INGEST:
        body = IngestBody.read(manifest)
        digests = {shard.resource: shard.info.content_digest for shard in body.shards}
        return of_shards(resource, (Vertex(name, "document-shard", digest) for name, digest in digests.items()))
    if manifest.kind in (Kind.DEDUP, Kind.DATASET):
        return of_parents(resource, (parent for parent in manifest.parents if parent.startswith("document-shards/")))
    return Testimony()


class Folding:
    def __init__(self, host: Host, tables: Tables, rebuild: Rebuild) -> None:
        self._host, self._tables, self.rebuild = host, tables, rebuild
        self.reconciler = Reconciler(
            "lineage",
            host,
            open=lambda unit: [OWNERS, MANIFESTS],
            advance=self._advance,
            tell=self._tell,
            interval=30.0,
        )
        self._troubles: dict[str, str] = {}
        self._listed: dict[str, int] = {}
        self._rests_until = 0.0

    def on_resources(self, unit: Unit, events: Sequence[Event]) -> None:
        """Fold snapshots as they come."""
        for event in events:
            self.admit(unit, event.message)

    def admit(self, unit: Unit, resource: Message) -> None:
        self._tables.admit(unit, testimony(resource))
        key, kind = manifest_of(resource)
        name: str = resource.name  # type: ignore[attr-defined]
        if isinstance(resource, Checkpoint) and resource.state in GONE:
            self._tables.drop_manifests(unit, name)
        if key and self._tables.note_manifest(unit, key=key, resource=name, kind=kind):
            unit.on_commit(lambda: self.reconciler.wake(MANIFESTS))

    def _advance(self, what: str) -> bool | None:
        if what == OWNERS:
            self._fold_owners()
            self._read_again()
            self._host.units.run(self.rebuild.finish)
            return None
        if self._read_manifests():
            return True
        self._host.units.run(self.rebuild.finish)
        return None

    def begin_rebuild(self, unit: Unit) -> None:
        """Compare every row with what owners and manifests state."""
        self.rebuild.begin(unit)
        unit.on_commit(lambda: self.reconciler.wake(OWNERS))

    def _tell(self, unit: Unit, what: str, trouble: Trouble | None) -> None:
        """No resource belongs to the fold, so the doctor reports why it does not go on."""
        if trouble is None:
            self._troubles.pop(what, None)
        else:
            self._troubles[what] = trouble.reason

    def folding(self) -> Finding:
        """For the doctor: whether the fold goes on."""
        told = "; ".join(f"{what}: {reason}" for what, reason in sorted(self._troubles.items()))
        return Finding("folding", not told, told or "owners and manifests are read")

    def manifests(self) -> Finding:
        """For the doctor: which manifests could not be read."""
        found = self._noted(Reading.MISSING, Reading.DAMAGED)
        if not found:
            return Finding("manifests", True, "all could be read")
        shown = ", ".join(f"{each.key} of {each.resource} is {each.state}" for each in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return Finding("manifests", False, f"{shown}{more}; run the stage again")

    def _fold_owners(self) -> None:
        """List the kinds that changed since they were listed, or that a rebuild waits for; a process that starts lists
        them all.
        """
        unlisted, began = self._host.units.run(self.rebuild.unlisted), self._host.clock.monotonic()
        if began < self._rests_until and not unlisted:
            return
        for owner, kinds in groupby(sorted(KINDS, key=lambda kind: kind.owner), key=lambda kind: kind.owner):
            channel = self._host.channel(owner)
            changes = AdminStub(channel).ListChanges(ListChangesRequest(service=owner)).changes
            for kind in kinds:
                number, rebuild = changes.get(kind.plural), unlisted.get(kind.plural, "")
                if not rebuild and number is not None and number == self._listed.get(kind.plural):
                    continue
                admit = self._confirm_all if rebuild else self._admit_all
                for page in kind.pages(channel):
                    self._host.units.run(partial(admit, page))
                if rebuild:
                    self._host.units.run(partial(self.rebuild.listed, plural=kind.plural, rebuild=rebuild))
                if number is not None:  # counted before the list was read: what came between is listed again
                    self._listed[kind.plural] = number
        ended = self._host.clock.monotonic()
        self._rests_until = ended + REST * (ended - began)

    def _noted(self, *states: Reading, limit: int | None = None) -> list[Noted]:
        return self._host.units.run(lambda unit: self._tables.noted(unit, *states, limit=limit))

    def _read_manifests(self) -> bool:
        waiting = self._noted(Reading.UNREAD, limit=BATCH)
        self._read_all(waiting)
        return len(waiting) == BATCH

    def _read_again(self) -> None:
        """Read manifests that were missing or damaged again; until one is read, doctor reports its state."""
        self._read_all(self._noted(Reading.MISSING, Reading.DAMAGED))

    def _read_all(self, waiting: Sequence[Noted]) -> None:
        for noted in waiting:
            said, state = self._read(noted)
            if state is not noted.state:
                self._host.units.run(partial(self._settle, said, noted, state))

    def _read(self, noted: Noted) -> tuple[Testimony, Reading]:
        if noted.kind in (Kind.CHECKPOINT, Kind.IMPORT):
            return Testimony(), Reading.READ  # its ledger is read when somebody asks
        try:
            manifest = Manifest.decode(self._host.blobs.get(noted.key), expected=noted.kind)
            return testimony_of(manifest, noted.resource), Reading.READ
        except BlobMissing:
            return Testimony(), Reading.MISSING
        except CorpusError:
            return Testimony(), Reading.DAMAGED

    def _admit_all(self, page: Sequence[Message], unit: Unit) -> None:
        for each in page:
            self.admit(unit, each)

    def _confirm_all(self, page: Sequence[Message], unit: Unit) -> None:
        for each in page:
            self.rebuild.confirm(unit, testimony(each))
        self._admit_all(page, unit)
        for each in page:
            key, _ = manifest_of(each)
            if key and self.rebuild.confirm_manifest(unit, key, each.name):  # type: ignore[attr-defined]
                unit.on_commit(lambda: self.reconciler.wake(MANIFESTS))

    def _settle(self, said: Testimony, noted: Noted, state: Reading, unit: Unit) -> None:
        self._tables.admit(unit, said)
        self._tables.settle(unit, noted, state)
        if state is Reading.READ:
            self.rebuild.confirm(unit, said)
        else:
            self.rebuild.keep(unit, noted)
