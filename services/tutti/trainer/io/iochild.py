"""The I/O child: everything of a node that reads or writes blobs, beside the ranks and off their time.

It stages datasets and checkpoints, digests snapshots out of shared memory into the spool, stores them, and reads back
what other nodes stored. It imports neither torch nor grpc; killed anywhere, the next one goes on with the spool.
"""

import json
import logging
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tutti.backbone.backoff import Backoff
from tutti.backbone.blobs import BlobError, BlobExists, Blobs, StoreFull
from tutti.backbone.clock import Clock, SystemClock
from tutti.backbone.connect import open_blobs
from tutti.backbone.files import Files, RealFiles
from tutti.backbone.owned import OwnedBlobs, agent_rights
from tutti.chassis.config.diskspace import is_full, wanted
from tutti.checkpoints.errors import CheckpointError, in_words
from tutti.checkpoints.keys import ShardName
from tutti.checkpoints.report import ShardReport
from tutti.checkpoints.scalars import StateScalars
from tutti.checkpoints.verification import verify_report
from tutti.checkpoints.writer import Snapshot, describe, plan_of, store
from tutti.contracts.trainer.v1 import (
    BuffersRequest,
    BuffersResponse,
    ExperienceStored,
    IoMessage,
    Lost,
    Release,
    Spooled,
    StageRequest,
    StageResponse,
    Stored,
    StoreExperience,
    StoreRequest,
    Trouble,
    Verified,
    VerifyRequest,
)
from tutti.model.shapes import to_shape
from tutti.model.spec import SpecError
from tutti.model.training import Training
from tutti.trainer.framing import BlockingChannel
from tutti.trainer.io.buffers import BufferPool, SharedBuffer
from tutti.trainer.io.experiences import ExperienceSpool, experience_key
from tutti.trainer.io.iosettings import OWNER, READS, IoSettings
from tutti.trainer.io.spool import Entry, Spool
from tutti.trainer.io.staging import Cache, StagingError

CACHE, SPOOL, EXPERIENCES = "cache", "spool", "experiences"
_BACKOFF = Backoff(0.2, 5.0)
_IDLE = 0.2

Say = Callable[[IoMessage], None]


class Retry:
    """The time of the next attempt: delays double, and are reset by the first success."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._failures, self._at = clock, 0, 0.0

    @property
    def due(self) -> bool:
        return self._clock.monotonic() >= self._at

    def failed(self) -> None:
        self._failures += 1
        self._at = self._clock.monotonic() + _BACKOFF.longest(self._failures)

    def worked(self) -> None:
        self._failures, self._at = 0, 0.0


class IoChild:
    """Its work as three lanes; each `step` of a lane does one thing and returns whether it did."""

    def __init__(
        self, blobs: Blobs, files: Files, clock: Clock, *, node: str, state: Path, buffers: Path, spool: int, say: Say
    ) -> None:
        self._blobs, self._clock, self._node, self._say = blobs, clock, node, say
        self._pool = BufferPool(buffers)
        self._state = state
        self._cache = Cache(state / CACHE, blobs, files)
        self._spool = Spool(state / SPOOL, files, limit=spool, trouble=self._tell, lost=self._tell_lost)
        self._experiences = ExperienceSpool(state / EXPERIENCES, files)
        self._rolled_out: deque[StoreExperience] = deque()
        self._fetches: deque[StageRequest | VerifyRequest] = deque()
        self._snapshots: deque[tuple[StoreRequest | Release, float]] = deque()
        self._since: dict[ShardName, float] = {}
        self._stored: Entry | None = None  # in the blob store, but its receipt is not durable
        self._retries = {lane: Retry(clock) for lane in ("fetch", "spool", "upload")}
        self._troubles: dict[str, str] = {}
        for report in self._spool.receipts():
            self._tell_stored(report, seconds=0.0)
        for name in self._spool.lost():
            self._tell_lost(name, "it was set aside before this I/O child started; the spool holds what is left of it")

    @property
    def lanes(self) -> tuple[Callable[[], bool], ...]:
        return self.fetch, self.spool, self.upload

    def take(self, message: IoMessage) -> None:
        """One message of the agent; anything slow is left to the lanes."""
        match message.WhichOneof("body"):
            case "stage" if not message.stage.dataset_manifest_key and not message.stage.resume_manifest_key:
                self._say(IoMessage(staged=StageResponse(id=message.stage.id)))
            case "stage":
                self._fetches.append(message.stage)
            case "verify":
                self._fetches.append(message.verify)
            case "buffers":
                self._say(IoMessage(buffers_made=self._make_buffers(message.buffers)))
            case "store":
                self._snapshots.append((message.store, self._clock.monotonic()))
            case "release":
                self._snapshots.append((message.release, 0.0))
            case "experience":
                self._rolled_out.append(message.experience)
            case "experience_told":
                self._experiences.forget(message.experience_told)

    def fetch(self) -> bool:
        """Stage or verify one thing."""
        if not self._fetches or not self._retries["fetch"].due:
            return False
        request = self._fetches[0]
        try:
            answer = self._stage(request) if isinstance(request, StageRequest) else self._verify(request)
        except (BlobError, OSError) as error:
            full = isinstance(error, StoreFull) or is_full(error)
            missing = f"room on the disk of {self._state / CACHE}" if full else "the blob store"
            self._wait("fetch", f"staging and verification wait for {missing}: {error}")
            return False
        self._fetches.popleft()
        self._worked("fetch")
        self._say(answer)
        return True

    def spool(self) -> bool:
        """Take one snapshot out of its buffer, or keep one experience."""
        if self._rolled_out and self._retries["spool"].due:
            return self._keep(self._rolled_out[0])
        if not self._snapshots or not self._retries["spool"].due:
            return False
        request, since = self._snapshots[0]
        return self._release(request) if isinstance(request, Release) else self._take(request, since)

    def upload(self) -> bool:
        """Store one spooled snapshot; where there is none, one experience."""
        if not self._retries["upload"].due:
            return False
        entry, waiting = self._stored, 0
        try:
            entries = self._spool.waiting()
            entry, waiting = entry or next(iter(entries), None), len(entries)
            if entry is None:
                return self._store_experience()
            self._store(entry)
        except BlobExists as error:
            # Written once is written for ever: no later try could store it.
            assert entry is not None
            return self._give_up(entry, f"{entry.name} was stored before with other bytes: {error}")
        except (BlobError, OSError) as error:
            first = f", first {entry.name}" if entry else ""
            self._wait("upload", f"{waiting} snapshots wait for the blob store{first}: {error}")
            return False
        self._worked("upload")
        return True

    def _release(self, request: Release) -> bool:
        try:
            self._pool.release(request.job, request.epoch)
            self._spool.forget(_job_id(request.job), request.epoch)
        except OSError as error:
            self._wait("spool", f"what is left of {request.job}, epoch {request.epoch} cannot be removed: {error}")
            return False
        self._snapshots.popleft()
        self._worked("spool")
        return True

    def _take(self, request: StoreRequest, since: float) -> bool:
        """Take a snapshot out of its buffer, unless an earlier child did."""
        name = ShardName(_job_id(request.job), request.line, request.step, request.epoch, request.rank, self._node)
        try:
            if not self._spool.holds(name):
                if not self._spool.has_room_for(name):
                    self._trouble("spool", f"the spool is full: step {name.step} waits until an older one is stored")
                    return False
                self._digest(name, request)
        except (OSError, CheckpointError) as error:
            size = os.stat(request.buffer).st_size if os.path.exists(request.buffer) else 0
            self._wait_for_disk(f"the snapshot of {name}", self._state / SPOOL, size, error)
            return False
        self._since[name] = since
        self._snapshots.popleft()
        self._worked("spool")
        self._say(IoMessage(spooled=Spooled(buffer=request.buffer, step=request.step)))
        return True

    def _keep(self, experience: StoreExperience) -> bool:
        try:
            self._experiences.put(experience)
        except OSError as error:
            what = f"an experience of {experience.name.job}"
            self._wait_for_disk(what, self._state / EXPERIENCES, experience.ByteSize(), error)
            return False
        self._rolled_out.popleft()
        self._worked("spool")
        self._say(IoMessage(experience_kept=experience.name))
        return True

    def _store_experience(self) -> bool:
        """Raises BlobError, OSError."""
        experience = self._experiences.next()
        if experience is None:
            return False
        name = experience.name
        key = experience_key(name, self._node)
        try:
            self._blobs.put_if_absent(key, experience.data)
        except BlobExists as error:
            self._trouble("experience", f"{key} was stored before with other bytes: {error}")
        self._experiences.stored(name)
        stored = ExperienceStored(name=name, checkpoint=experience.checkpoint, key=key, epoch=experience.epoch)
        self._say(IoMessage(experience_stored=stored))
        return True

    def _give_up(self, entry: Entry, why: str) -> bool:
        try:
            self._spool.set_aside(entry.name, why)
        except OSError as error:
            self._wait("upload", f"{why}; it cannot be set aside: {error}")
            return False
        self._since.pop(entry.name, None)
        return True

    def _store(self, entry: Entry) -> None:
        began = self._clock.monotonic()
        if entry is not self._stored:
            store(self._blobs, entry.report, entry.data)
        writing = self._clock.monotonic() - began
        self._stored = entry
        self._spool.stored(entry.name)
        self._stored = None
        since = self._since.pop(entry.name, None)
        seconds = 0.0 if since is None else self._clock.monotonic() - since
        self._tell_stored(entry.report, seconds=seconds, writing_seconds=writing)

    def _tell_stored(self, report: ShardReport, *, seconds: float, writing_seconds: float = 0.0) -> None:
        name = report.name
        self._say(
            IoMessage(
                stored=Stored(
                    job=f"jobs/{name.job}",
                    line=name.line,
                    step=name.step,
                    epoch=name.epoch,
                    rank=name.rank,
                    report_key=report.report_key,
                    report_digest=report.digest,
                    bytes=report.nbytes,
                    seconds=seconds,
                    writing_seconds=writing_seconds,
                )
            )
        )

    def _tell_lost(self, name: ShardName, why: str) -> None:
        job = f"jobs/{name.job}"
        lost = Lost(job=job, line=name.line, step=name.step, epoch=name.epoch, rank=name.rank, error=why)
        self._say(IoMessage(lost=lost))

    def _digest(self, name: ShardName, request: StoreRequest) -> None:
        training, shape = Training.from_json(request.training), to_shape(request.shape)
        size = os.stat(request.buffer).st_size
        snapshot = Snapshot(
            name=name,
            node=request.node,
            shape=shape,
            training=training,
            kernel=json.loads(request.kernel or "{}"),
            scalars=StateScalars.from_json(request.scalars),
            loss=request.loss,
            bits_per_byte=request.bits_per_byte if request.HasField("bits_per_byte") else None,
            curve=request.curve,
        )
        plan = plan_of(training, shape)
        with SharedBuffer(Path(request.buffer), plan.snapshot_size(name.rank)) as buffer:
            if size < buffer.view.nbytes:
                raise CheckpointError(f"{request.buffer} has {size} bytes; expected {buffer.view.nbytes}")
            self._spool.put(describe(buffer.view, snapshot, plan), buffer.view)

    def _make_buffers(self, request: BuffersRequest) -> BuffersResponse:
        try:
            paths = self._pool.make(request.job, request.epoch, request.rank, size=request.bytes, count=request.count)
        except OSError as error:
            return BuffersResponse(
                id=request.id,
                error=f"no room for {request.count} snapshot buffers of {request.bytes} bytes: {error}; "
                "make shared memory larger, or use more ranks on more nodes",
            )
        return BuffersResponse(id=request.id, paths=[str(path) for path in paths])

    def _stage(self, request: StageRequest) -> IoMessage:
        answer = StageResponse(id=request.id)
        found, brought = self._cache.found_bytes, self._cache.brought_bytes
        try:
            if request.dataset_manifest_key:
                wanted = {request.dataset_digest: request.dataset_manifest_key}
                wanted |= {each.digest: each.manifest_key for each in request.mixed}
                answer.dataset, *mixed = map(str, self._cache.datasets(wanted))
                answer.mixed.extend(mixed)
            if request.tokenizer_key:
                answer.tokenizer = str(self._cache.tokenizer(request.tokenizer_key, request.tokenizer_version))
            checkpoints = {each.state_digest: each.manifest_key for each in request.models}
            if request.resume_manifest_key:
                checkpoints[request.state_digest] = request.resume_manifest_key
            folders = dict(zip(checkpoints, map(str, self._cache.checkpoints(checkpoints)), strict=True))
            answer.resume = folders.get(request.state_digest, "")
            answer.models.update({each.role: folders[each.state_digest] for each in request.models})
        except StagingError as error:
            answer.error = str(error)
        answer.found_bytes = self._cache.found_bytes - found
        answer.brought_bytes = self._cache.brought_bytes - brought
        return IoMessage(staged=answer)

    def _verify(self, request: VerifyRequest) -> IoMessage:
        """Every byte of a shard against what its report says of the whole and of each tensor, as the committer does."""
        try:
            training = Training.from_json(request.training)
            found = verify_report(self._blobs, request.report_key, request.report_digest, training)
            error = in_words(found.problems)
        except SpecError as problem:
            error = f"{request.report_key}: the claim names no training that this agent knows: {problem}"
        return IoMessage(verified=Verified(verification=request.verification, claim=request.claim, error=error))

    def _wait_for_disk(self, what: str, folder: Path, size: int, error: Exception) -> None:
        """The spool lane tries again; a full disk is named with the bytes that it lacks."""
        full = is_full(error)
        self._wait("spool", f"{what} waits for {wanted(folder, size)}" if full else f"{what} cannot be kept: {error}")

    def _wait(self, lane: str, words: str) -> None:
        self._retries[lane].failed()
        self._trouble(lane, words)

    def _trouble(self, lane: str, words: str) -> None:
        if self._troubles.get(lane) != words:
            self._troubles[lane] = words
            self._tell(words)

    def _tell(self, words: str) -> None:
        self._say(IoMessage(trouble=Trouble(message=words)))

    def _worked(self, lane: str) -> None:
        self._retries[lane].worked()
        self._troubles.pop(lane, None)


def _job_id(job: str) -> str:
    return job.removeprefix("jobs/")


def main() -> None:
    """Serve the agent on the inherited socket until it is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING)
    channel = BlockingChannel(socket.socket(fileno=int(sys.argv[1])), IoMessage)
    settings = IoSettings.from_json(sys.stdin.read())
    child = IoChild(
        OwnedBlobs(open_blobs(settings.blobs), OWNER, agent_rights(OWNER, READS, settings.node)),
        RealFiles(),
        SystemClock(),
        node=settings.node,
        state=Path(settings.state),
        buffers=Path(settings.buffers),
        spool=settings.spool,
        say=lambda message: _say(channel, message),
    )
    wakes = [threading.Event() for _ in child.lanes]
    for lane, wake in zip(child.lanes, wakes, strict=True):
        threading.Thread(target=_drive, args=(lane, wake, wakes), name=lane.__name__, daemon=True).start()
    try:
        while (message := channel.receive()) is not None:
            child.take(message)
            for wake in wakes:
                wake.set()
    except EOFError:
        os._exit(0)


def _say(channel: BlockingChannel[IoMessage], message: IoMessage) -> None:
    """Tell the agent; the end of the child if it is gone."""
    try:
        channel.send(message)
    except OSError:
        os._exit(0)


def _drive(lane: Callable[[], bool], wake: threading.Event, others: list[threading.Event]) -> None:
    """Step one lane for ever; what it did may be work for the others."""
    try:
        while True:
            if lane():
                for other in others:
                    other.set()
            else:
                wake.wait(_IDLE)
                wake.clear()
    except BaseException:
        # Half a child is worse than none: the agent starts another, which goes on with the spool.
        logging.exception("the I/O child broke")
        os._exit(1)


if __name__ == "__main__":
    main()
