"""Imports as work: a folder of Hugging Face becomes a checkpoint of parameters.

Promises: importing the same folder again, at once or later, gives the same checkpoint. Before the checkpoint exists, a
process that did not write its bytes has read every byte back. Blobs have the digest of their bytes in their keys, so an
import that was killed continues, and nothing that it left is taken for a checkpoint.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sqlalchemy import delete, insert, select

from tutti.chassis import version
from tutti.chassis.config.roots import Roots
from tutti.chassis.errors import DeadlineExceeded, InvalidField
from tutti.chassis.identity.principal import Principal
from tutti.chassis.progress import Progress
from tutti.chassis.rpc.call import Call
from tutti.chassis.service import Host
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import TaskContext, WorkFailed
from tutti.chassis.work.work import Outcome, Work, put_content, put_named
from tutti.checkpoints.digests import model_root
from tutti.checkpoints.imported import FolderFile, ImportBody
from tutti.checkpoints.keys import import_folder, import_key, import_of
from tutti.checkpoints.places import BlobEntry, ChunkPlace
from tutti.committer import quarantine, reading
from tutti.committer.commits import Commits
from tutti.committer.reading import Shard, Surveyed
from tutti.committer.records import DecisionRow
from tutti.committer.settings import CommitterSettings
from tutti.contracts.committer.v1 import (
    CHECKPOINT_STATE_COMMITTED,
    CHECKPOINT_STATE_DECIDED,
    CHECKPOINT_STATE_PRUNED,
    CHECKPOINT_STATE_QUARANTINED,
    Checkpoint,
    CreateImportRequest,
    CreateImportResponse,
    Import,
    ImportSpec,
)
from tutti.contracts.common.v1 import Artifact
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.model.chunks import Layout
from tutti.model.plan import BYTES
from tutti.platform.pool import PoolCancelled, run_within

LOGIC_VERSION = "import-1"
READER = "committer/resident"
"""The process that reads shards back: those of the pool write them."""
SETTING = "committer.roots"
AGAIN = (CHECKPOINT_STATE_QUARANTINED, CHECKPOINT_STATE_PRUNED)
"""States of checkpoints that importing the folder again brings back."""


class Imports:
    """The work of imports, and the call that asks for one."""

    def __init__(
        self, host: Host, commits: Commits, settings: CommitterSettings, checkpoints: Resource[Checkpoint]
    ) -> None:
        self._host, self._commits, self._records = host, commits, commits.records
        self._checkpoints, self._folders = checkpoints, commits.records.tables.folders
        self._settings, self._roots = settings, Roots(settings.roots, SETTING)
        self.work = Work(host, "imports", Import, self._run, LOGIC_VERSION)

    def create(self, request: CreateImportRequest, call: Call) -> CreateImportResponse:
        """Raises InvalidField for a folder that the caller may not name, or that is none.

        A request that is only validated reads the whole folder: InvalidField says too which file and key is refused.
        """
        path = self._folder(request.spec.folder, call.principal)
        shown = ImportSpec(logic_version=request.spec.logic_version)
        if request.validate_only:
            _require_folder(request.spec.folder, path)
            made = self.work.create(request, shown=shown)
            return CreateImportResponse(**{"import": self._foreseen(made, path, call)})
        made = self.work.create(
            request,
            check=lambda: _require_folder(request.spec.folder, path),
            shown=shown,
            keep=lambda unit: self._keep(unit, request.name, path),
        )
        return CreateImportResponse(**{"import": made})

    def _foreseen(self, made: Import, path: str, call: Call) -> Import:
        """The import with the digests of the folder as it is now. Raises InvalidField, DeadlineExceeded."""
        folder, seconds = Path(path), call.deadline_seconds
        try:
            pool, clock = self._host.pool, self._host.clock
            found = run_within(pool, clock, seconds, reading.survey, folder, self._root(folder))
        except WorkFailed as error:
            raise InvalidField("spec.folder", seen=path, expected=f"a folder that can be imported: {error}") from error
        except PoolCancelled as late:
            raise DeadlineExceeded(f"the folder was not read within {seconds:.0f} s; wait longer") from late
        made.checkpoint, made.folder_digest = f"checkpoints/{import_of(found.digest)}/0/0", found.digest
        made.tokenizer, made.template, made.licence = found.version, found.template, found.licence
        return made

    def _folder(self, path: str, principal: Principal) -> str:
        if not os.path.isabs(path) or "\0" in path:
            raise InvalidField("spec.folder", seen=path or "nothing", expected="an absolute path of a folder")
        return self._roots.resolved("spec.folder", path, "folder", principal)

    def _run(self, context: TaskContext, work: Import) -> Outcome:
        folder = self._host.units.run(lambda unit: self._path(unit, work.name))
        root = self._root(folder)
        surveyed = context.pool(reading.survey, folder, root)
        job = import_of(surveyed.digest)
        found = self._host.units.run(lambda unit: self._checkpoints.find(unit, f"checkpoints/{job}/0/0"))
        if found is not None and found.state == CHECKPOINT_STATE_PRUNED:
            self._require_swept(found.name)
        if found is None or found.state in AGAIN:
            with tempfile.TemporaryDirectory(prefix="tutti-import-") as scratch:
                body = self._stored(context, folder, root, surveyed, Path(scratch))
            context.check()
            if found is not None:
                self._host.blobs.delete(body.manifest_key)  # it is published again, from the decision
            self._host.units.run(lambda unit: self._decide(unit, body))
        self._commits.finish(job)
        done = self._host.units.run(lambda unit: self._checkpoints.get(unit, f"checkpoints/{job}/0/0"))
        if done.state != CHECKPOINT_STATE_COMMITTED:
            raise WorkFailed(f"{done.name} is damaged: {done.reason}; import the folder again")

        def fill(unit: Unit, work: Import) -> None:
            work.result.CopyFrom(
                Artifact(manifest_key=done.manifest_key, content_digest=done.folder_digest, bytes=done.bytes)
            )
            work.checkpoint, work.model_digest, work.folder_digest = done.name, done.model_digest, done.folder_digest
            work.tokenizer, work.template, work.licence = done.tokenizer, done.template, done.licence
            unit.tx.execute(delete(self._folders).where(self._folders.c.name == work.name))

        return fill

    def _root(self, folder: Path) -> Path | None:
        """The root of a folder, which links may lead to; None: that of the folder itself. Raises WorkFailed."""
        real = os.path.realpath(folder)
        roots = [each for each in self._roots.folders if os.path.commonpath((each, real)) == each]
        if self._roots.folders and not roots:
            raise WorkFailed(f"the folder was moved; expected one under {', '.join(self._roots.folders)} ({SETTING})")
        return Path(roots[0]) if roots else None

    def _stored(
        self, context: TaskContext, folder: Path, root: Path | None, surveyed: Surveyed, scratch: Path
    ) -> ImportBody:
        """Store the parameters, tokenizer and texts of the folder; read each shard back. Raises WorkFailed."""
        layout, digest = Layout(surveyed.model), surveyed.digest
        shards, blobs = list[Shard](), list[BlobEntry]()
        for chunks in reading.shards_of(layout):
            context.check()
            shard = context.pool(reading.convert, folder, root, surveyed.seen, chunks, scratch / "written")
            blobs.append(BlobEntry(import_key(digest, shard.bytes_digest), shard.nbytes, shard.bytes_digest))
            put_content(self._host.blobs, blobs[-1].key, scratch / "written", shard.bytes_digest)
            self._read_back(context, blobs[-1].key, shard, surveyed, scratch / "read")
            shards.append(shard)
            context.tell(Progress(sum(each.nbytes for each in shards), BYTES * layout.elements, "bytes"))
        places = [ChunkPlace(blob, entry) for blob, shard in enumerate(shards) for entry in shard.entries]
        put_content(self._host.blobs, tokenizer_key(surveyed.version), surveyed.tokenizer, surveyed.version)
        keys = {
            name: put_named(self._host.blobs, import_folder(digest), data, "") for name, data in surveyed.texts.items()
        }
        return ImportBody(
            layout=layout,
            files=tuple(
                FolderFile(name, each, keys.get(name, "")) for name, each in sorted(surveyed.seen.digests.items())
            ),
            tokenizer=surveyed.version,
            template=surveyed.template,
            licence=surveyed.licence,
            dtype=surveyed.dtype,
            model_digest=model_root(layout, [place.entry.digest for place in places]),
            blobs=tuple(blobs),
            places=tuple(places),
            verified_by=(READER,),
        )

    def _require_swept(self, name: str) -> None:
        """Raise WorkFailed while bytes of a pruned checkpoint are still to be deleted."""
        decision = self._host.units.run(lambda unit: self._records.decision(unit, name))
        if decision is not None and not decision.swept:
            seconds = f"{self._settings.grace_seconds:.0f} s"
            raise WorkFailed(f"{name} was pruned, and its bytes are deleted {seconds} later; import the folder then")

    def _read_back(self, context: TaskContext, key: str, shard: Shard, surveyed: Surveyed, path: Path) -> None:
        """Compare a stored shard with its digests, in another process than the one that wrote it. Raises WorkFailed."""
        self._host.blobs.fetch(key, path)
        problems = context.resident(reading.read_back, path, key, shard, surveyed.model)
        if problems:
            raise WorkFailed(f"a stored shard cannot be read back: {quarantine.reason(problems)}; import it again")

    def _decide(self, unit: Unit, body: ImportBody) -> None:
        """Write the decision; if there is one, its checkpoint was quarantined or pruned, and comes back."""
        if self._records.decision(unit, body.name) is not None:
            checkpoint = self._checkpoints.lock(unit, body.name)
            if checkpoint.state in AGAIN:
                checkpoint.state, checkpoint.reason = CHECKPOINT_STATE_DECIDED, ""
                self._checkpoints.put(unit, checkpoint)
                self._records.mark_decision(unit, body.name, published=0, pruned_at=None, swept=0)
            return
        row = DecisionRow(
            name=body.name,
            job=import_of(body.folder_digest),
            line=0,
            step=0,
            epoch=0,
            state_digest=body.identity,
            manifest_key=body.manifest_key,
            manifest=body.manifest(producer=version.producer("committer")).encode(),
        )
        self._records.add_decision(unit, row)
        checkpoint = Checkpoint(
            name=row.name,
            model_digest=body.model_digest,
            bytes=body.nbytes,
            manifest_key=row.manifest_key,
            state=CHECKPOINT_STATE_DECIDED,
            verified_by=body.verified_by,
            folder_digest=body.folder_digest,
            tokenizer=body.tokenizer,
            template=body.template,
            licence=body.licence,
        )
        checkpoint.decided_at.FromDatetime(unit.now)
        self._checkpoints.create(unit, checkpoint)

    def _keep(self, unit: Unit, name: str, path: str) -> None:
        """Record the folder of an import: a path of this machine is in no resource."""
        if not self._path_of(unit, name):
            unit.tx.execute(insert(self._folders).values(name=name, path=path))

    def _path(self, unit: Unit, name: str) -> Path:
        """The folder of an import. Raises WorkFailed."""
        found = self._path_of(unit, name)
        if not found:
            raise WorkFailed("its folder is no longer recorded; import it again")
        return Path(found)

    def _path_of(self, unit: Unit, name: str) -> str:
        row = unit.tx.execute(select(self._folders.c.path).where(self._folders.c.name == name)).first()
        return str(row.path) if row else ""


def _require_folder(path: str, real: str) -> None:
    """Raises InvalidField unless `real`, where the links of `path` lead, is a folder."""
    if not os.path.isdir(real):
        raise InvalidField("spec.folder", seen=path, expected="a folder of the machine of the platform")
