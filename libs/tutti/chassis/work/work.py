"""Long work as a resource: created by a call, done by one task, ended once.

Promises: a resource whose message has `spec state reason started_at ended_at` goes PENDING, RUNNING and then to exactly
one of DONE, FAILED, CANCELLED, and on from the last two only where its owner lets another request begin it anew; what
`run` computed is recorded in the transaction that ends it. What it stores under a key that names its content holds that
content afterwards, whatever damage was there before.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobExists, BlobMissing
from tutti.chassis.errors import InvalidField, Refused
from tutti.chassis.identity.principal import Principal
from tutti.chassis.names import check_name
from tutti.chassis.rpc import standard
from tutti.chassis.rpc.call import Call
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.rpc.methods import methods_of
from tutti.chassis.service import Host, Served, TaskKind
from tutti.chassis.store import crud, taskrows
from tutti.chassis.store.canonical import CanonicalLine
from tutti.chassis.store.clipping import clipped
from tutti.chassis.store.columns import Index
from tutti.chassis.store.resources import Resource, Shown
from tutti.chassis.store.unit import Unit
from tutti.chassis.tasks import Finish, Task, TaskContext
from tutti.contracts.common.v1 import (
    STATE_CANCELLED,
    STATE_DONE,
    STATE_FAILED,
    STATE_PENDING,
    STATE_RUNNING,
    Artifact,
    CancelRequest,
    GetRequest,
    ListRequest,
    State,
)
from tutti.records.canonical import bytes_digest, file_digest
from tutti.records.errors import CorpusError
from tutti.records.manifest import Manifest

IN_VAIN = (STATE_FAILED, STATE_CANCELLED)
ENDED = (STATE_DONE, *IN_VAIN)
AGAIN = b"again"
"""The payload of a task that makes a result again."""
_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)
Outcome = Callable[[Unit, Any], None]
Keep = Callable[[Unit], None]


def require_done(work: Any) -> None:
    """Raises Refused with the state of a resource whose work did not end well, and why."""
    if work.state != STATE_DONE:
        state = State.Name(work.state).removeprefix("STATE_").lower()
        raise Refused("NOT_DONE", f"{work.name} is {state}{f': {work.reason}' if work.reason else ''}")


class Work(Generic[M]):
    """`run(context, resource)` does it outside any transaction; what it returns fills the result in inside one.

    `columns` are what can be selected by, beside the state; `shown` is that of the resource; `done` is called with work
    that has a result, in the transaction that records it, so that it can emit facts.
    """

    def __init__(
        self,
        host: Host,
        kind: str,
        message: type[M],
        run: Callable[[TaskContext, M], Outcome],
        logic_version: str,
        columns: Mapping[str, Index] | None = None,
        shown: Shown[M] | None = None,
        done: Outcome = lambda unit, work: None,
    ) -> None:
        self.host, self.message, self.run, self.logic_version, self._on_done = host, message, run, logic_version, done
        known = {"state": lambda work: _state(work), **(columns or {})}
        self.resource: Resource[M] = Resource(host.metadata, kind, message, known, shown=shown)
        self.kind = kind

    def create(
        self,
        request: Any,
        *,
        check: Callable[[], object] | None = None,
        shown: Message | None = None,
        keep: Keep = lambda unit: None,
        anew: bool = False,
    ) -> M:
        """Record the work of a create request (`request_id name spec validate_only`) and enqueue its task.

        `check` raises for a request that cannot be carried out now, because of files, blobs, settings or other
        resources: it is not called for a request that is repeated, whose work exists whatever became of these.
        `shown` is the spec as the resource and its events have it, where parts of the request's are private; `keep`
        records those in the same transaction, again when the request is repeated. With `anew` another request begins
        work that failed or was cancelled again, under its name.
        """
        version = request.spec.logic_version
        if (check or version not in ("", self.logic_version)) and self._is_new(request, anew=anew):
            if version not in ("", self.logic_version):
                raise InvalidField("spec.logic_version", seen=version, expected=f"{self.logic_version} or empty")
            if check:
                check()
        made: Any = self.message()
        made.name, made.state, made.reason = request.name, STATE_PENDING, "waits for a worker"
        made.spec.CopyFrom(request.spec if shown is None else shown)
        made.spec.logic_version = self.logic_version

        def record(unit: Unit) -> M:
            in_vain = anew and self._in_vain(unit, request.name)
            created: Any = (self.resource.renew if in_vain else self.resource.create)(unit, made, request)
            keep(unit)
            if _state(created) not in ENDED:
                again = f"/{created.revision}" if in_vain else ""
                unit.enqueue(self.kind, request.name, id=f"{request.name}{again}")
            return created  # type: ignore[no-any-return]

        return made if request.validate_only else self.host.units.run(record)

    def _is_new(self, request: Any, *, anew: bool) -> bool:
        """False for a request that is repeated. Raises AlreadyExists."""
        if request.validate_only:
            return True
        name = check_name(self.kind, request.name)

        def look(unit: Unit) -> bool:
            if anew and self._in_vain(unit, name):
                return not self.resource.is_requested(unit, request.request_id)
            return self.resource.repeated(unit, name, request) is None

        return self.host.units.run(look)

    def _in_vain(self, unit: Unit, name: str) -> bool:
        """True if the work ended without a result; then it is locked."""
        found = self.resource.find(unit, name)
        return found is not None and _state(found) in IN_VAIN and _state(self.resource.lock(unit, name)) in IN_VAIN

    def get(self, request: GetRequest, principal: Principal) -> M:
        return crud.get(self.host.units, self.resource, request, principal, self._told)

    def _told(self, unit: Unit, work: Any) -> Any:
        """With how far it is: neither stored with it nor in its events, since it is over before anybody reads them."""
        tells = "progress" in work.DESCRIPTOR.fields_by_name
        if tells and work.state == STATE_RUNNING and (said := taskrows.told(unit, work.name)) is not None:
            work.progress.done, work.progress.total, work.progress.unit = said.done, said.total, said.unit
        return work

    def page(self, request: ListRequest, response: type[R], principal: Principal) -> R:
        return crud.list_page(self.host.units, self.resource, request, response, principal)

    def cancel(self, request: CancelRequest, principal: Principal) -> M:
        """End work that has not ended, and its task; of ended work nothing changes."""

        def end(unit: Unit) -> M:
            self.resource.get_for(unit, request.name, principal)
            found = self.resource.lock(unit, request.name)
            if request.validate_only or _state(found) in ENDED:
                return found
            unit.cancel_tasks(request.name)
            return self._end(unit, found, STATE_CANCELLED, "cancelled on request")

        return self.host.units.run(end)

    def export(self, unit: Unit) -> Iterator[CanonicalLine]:
        """The canonical state: what the work is and what came of it."""
        for found in self.resource.select(unit):
            work: Any = found
            content = {"content_digest": work.result.content_digest, "state": _state(work)}
            yield CanonicalLine(work.name, content)

    def make_again(self, unit: Unit, manifests: Collection[str], cause: str) -> list[str]:
        """Enqueue the work of the results that have these manifests once more; the ids of the tasks.

        What it stores takes the place of damaged bytes; the resource stays as it is. Results of another version of the
        logic are left out, since their bytes would be others. `cause` is part of the ids.
        """
        return [
            unit.enqueue(self.kind, found.name, AGAIN, id=f"{found.name}/{cause}")
            for found in self._done(unit)
            if found.result.manifest_key in manifests and found.spec.logic_version == self.logic_version
        ]

    def _done(self, unit: Unit) -> list[Any]:
        return list(self.resource.select(unit, state=int(STATE_DONE)))

    def task(self) -> TaskKind:
        return TaskKind(name=self.kind, run=self._run, on_failed=self._failed)

    def _run(self, context: TaskContext) -> Finish:
        if context.task.payload == AGAIN:
            self.run(context, self.host.units.run(lambda unit: self.resource.get(unit, context.task.resource)))
            return lambda unit: None

        def begin(unit: Unit) -> M:
            found: Any = self.resource.lock(unit, context.task.resource)
            if found.state == STATE_PENDING:
                found.state, found.reason = STATE_RUNNING, ""
                found.started_at.FromDatetime(unit.now)
                return self.resource.put(unit, found)
            return found  # type: ignore[no-any-return]

        work: Any = self.host.units.run(begin)
        if work.state in ENDED:
            return lambda unit: None
        fill = self.run(context, work)

        def finish(unit: Unit) -> None:
            found: Any = self.resource.lock(unit, context.task.resource)
            if _state(found) not in ENDED:
                fill(unit, found)
                self._on_done(unit, self._end(unit, found, STATE_DONE, found.reason))

        return finish

    def _failed(self, unit: Unit, task: Task, reason: str) -> None:
        found = self.resource.lock(unit, task.resource)
        if _state(found) not in ENDED:
            self._end(unit, found, STATE_FAILED, reason)

    def _end(self, unit: Unit, work: Any, state: int, reason: str) -> M:
        work.state, work.reason = state, clipped(reason)
        work.ended_at.FromDatetime(unit.now)
        return self.resource.put(unit, work)


def served_work(work: Work[Any], check: Callable[[Any], None], more: object = None) -> Served:
    """The gRPC service of a kind of work whose proto file has one of its own: Create, Get, List and Cancel.

    `check` raises InvalidField for a spec that cannot be carried out; `more` has the other methods of the service.
    """
    kind = kind_of(work.message)
    descriptor = work.message.DESCRIPTOR.file.services_by_name[kind.service.rpartition(".")[2]]
    create = f"Create{kind.singular}"
    response = next(method.response for method in methods_of(descriptor) if method.name == create)

    def make(request: Any, call: Call) -> Message:
        check(request.spec)
        return response(**{kind.singular.lower(): work.create(request)})

    others = {method.name: getattr(more, method.name) for method in descriptor.methods if hasattr(more, method.name)}
    return standard.served(descriptor, SimpleNamespace(**{create: make}, **others), work)


def _state(work: Any) -> int:
    return int(work.state)


def publish(blobs: Blobs, owner: str, manifest: Manifest, *, data_bytes: int) -> Artifact:
    """Put a manifest under `{owner}/manifests/{digest}.json` and describe it."""
    key = f"{owner}/manifests/{manifest.content_digest.removeprefix('blake3:')}.json"
    try:
        blobs.put_if_absent(key, manifest.encode())
    except BlobExists as error:
        # The producer is no part of the digest: another version of it may have written the same manifest.
        if not _holds(blobs, key, manifest):
            _replace(blobs, key, manifest.encode(), error)
    return Artifact(manifest_key=key, content_digest=manifest.content_digest, bytes=data_bytes)


def put_named(blobs: Blobs, folder: str, data: bytes, suffix: str) -> str:
    """Put bytes under `{folder}/{digest}{suffix}`; the key."""
    digest = bytes_digest(data)
    key = f"{folder}/{digest.removeprefix('blake3:')}{suffix}"
    put_content(blobs, key, data, digest)
    return key


def put_file(blobs: Blobs, folder: str, path: Path) -> str:
    """Put a local file under `{folder}/{digest}` with the suffix of its name; the key."""
    digest = file_digest(path)
    key = f"{folder}/{digest.removeprefix('blake3:')}{path.suffix}"
    put_content(blobs, key, path, digest)
    return key


def put_content(blobs: Blobs, key: str, data: bytes | Path, digest: str) -> None:
    """Put what `digest` names under a key of the caller's own that holds this digest.

    One content has one sequence of bytes, so other bytes there are damaged: they are replaced, and it is logged. Raises
    BlobExists when the key does not name `digest`, since then the other bytes may be what somebody wanted there.
    """
    try:
        blobs.put_if_absent(key, data)
    except BlobExists as error:
        if digest.removeprefix("blake3:") not in key:
            raise
        _replace(blobs, key, data, error)


def _holds(blobs: Blobs, key: str, manifest: Manifest) -> bool:
    try:
        return Manifest.decode(blobs.get(key), expected=manifest.kind).content_digest == manifest.content_digest
    except (CorpusError, BlobMissing):
        return False


def _replace(blobs: Blobs, key: str, data: bytes | Path, found: BlobExists) -> None:
    _log.error("the blob %s is damaged, and is replaced by content with the digest in its name: %s", key, found)
    blobs.delete(key)
    blobs.put_if_absent(key, data)
