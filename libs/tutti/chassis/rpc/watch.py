"""Watches: snapshots of one resource as it changes.

Promises: the owner's table is read, so any replica can answer; a commit in this process wakes at once, one elsewhere is
seen by the fallback poll; a client resumes after the revision that it has seen, whatever was restarted meanwhile.
"""

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from tutti.backbone.backoff import Backoff
from tutti.chassis.errors import Cancelled, DeadlineExceeded, NotFound, Problem, Unavailable
from tutti.chassis.identity.principal import Principal
from tutti.chassis.rpc import eventloop
from tutti.chassis.store.resources import Resource
from tutti.chassis.store.unit import Units
from tutti.contracts.admin.v1 import WatchRequest, WatchResponse
from tutti.contracts.admin.v1.stubs import AdminStub

log = logging.getLogger(__name__)
M = TypeVar("M", bound=Message)
FALLBACK_SECONDS = 2.0
BACKOFF = Backoff(0.1, 5.0)


class Hints:
    """Wakes who watches a name in this process, after a commit that changed it."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._lock = threading.Lock()

    def notify(self, changes: frozenset[tuple[str, int]]) -> None:
        """Called by the thread that committed."""
        with self._lock:
            woken = [event for name, _ in changes for event in self._waiting.get(name, ())]
        for event in woken:
            eventloop.event_loop().call_soon_threadsafe(event.set)

    @contextmanager
    def waiting(self, name: str) -> Iterator[asyncio.Event]:
        """For the event loop."""
        event = asyncio.Event()
        with self._lock:
            self._waiting.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            with self._lock:
                self._waiting[name].discard(event)
                if not self._waiting[name]:
                    del self._waiting[name]


def snapshot(
    units: Units, resource: Resource[Any], request: WatchRequest, principal: Principal
) -> WatchResponse | None:
    """The resource, unless the caller has seen this revision. Raises NotFound where it does not exist for it."""
    found = units.run(lambda unit: resource.get_for(unit, request.name, principal))
    if found.revision <= request.since_revision:
        return None
    response = WatchResponse(name=request.name, revision=found.revision)
    response.resource.Pack(found)
    return response


async def snapshots(
    units: Units,
    resource: Resource[Any],
    request: WatchRequest,
    principal: Principal,
    hints: Hints,
    *,
    fallback: float = FALLBACK_SECONDS,
) -> AsyncIterator[WatchResponse]:
    """The newest snapshot now and after every change; those in between may be passed over."""
    seen = WatchRequest(name=request.name, since_revision=request.since_revision)
    with hints.waiting(request.name) as woken:
        while True:
            woken.clear()
            response = await asyncio.to_thread(snapshot, units, resource, seen, principal)
            if response is not None:
                seen.since_revision = response.revision
                yield response
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), random.uniform(0.8, 1.2) * fallback)


class Watch(Generic[M]):
    """The client's side. `start()` follows in a thread; `poll()` asks once, for single-threaded callers."""

    def __init__(
        self,
        channel: grpc.Channel,
        name: str,
        on_snapshot: Callable[[int, M], None] | None,
        message_type: type[M],
        *,
        since_revision: int = 0,
    ) -> None:
        self._stub, self._name = AdminStub(channel), name
        self._on_snapshot, self._type = on_snapshot, message_type
        self._revision = since_revision
        self._latest: tuple[int, M] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._call: Any = None
        self._thread = threading.Thread(target=self._follow, name=f"watch {name}", daemon=True)

    def start(self) -> "Watch[M]":
        self._thread.start()
        return self

    def latest(self) -> tuple[int, M] | None:
        """The last revision and message."""
        with self._lock:
            return self._latest

    def poll(self) -> tuple[int, M] | None:
        """Ask for the newest now; what was seen last. Raises Problem."""
        call = self._stub.Watch(WatchRequest(name=self._name, since_revision=self._revision), timeout=2.0)
        try:
            for response in call:
                self._take(response)
                break
        except DeadlineExceeded:  # nothing newer
            pass
        finally:
            cancel = getattr(call, "cancel", None)
            if cancel is not None:
                cancel()
        return self.latest()

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            call = self._call
        if call is not None:
            call.cancel()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _follow(self) -> None:
        failures = 0
        while not self._stop.is_set():
            try:
                call = self._stub.Watch(WatchRequest(name=self._name, since_revision=self._revision))
                with self._lock:
                    self._call = call
                for response in call:
                    failures = 0
                    self._take(response)
                    if self._stop.is_set():
                        return
            except (Cancelled, Unavailable, DeadlineExceeded, NotFound):
                failures = min(failures + 1, 10)
            except Problem:
                failures = min(failures + 1, 10)
                log.exception("the watch of %s failed and is reopened", self._name)
            self._stop.wait(BACKOFF.drawn(failures + 1))

    def _take(self, response: WatchResponse) -> None:
        if response.revision <= self._revision:
            return
        message = self._type()
        if not response.resource.Unpack(message):
            raise TypeError(f"{self._name} is a {response.resource.TypeName()}, not {message.DESCRIPTOR.full_name}")
        with self._lock:
            self._revision, self._latest = response.revision, (response.revision, message)
        if self._on_snapshot is not None:
            self._on_snapshot(response.revision, message)
