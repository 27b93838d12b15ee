"""The link to one replica: its stream is followed, and followed again whenever it was lost.

Promises: a replica that ends its stream, or is silent for too long, loses its requests at once, each of which learns
why; a pause of this process is no silence of a replica. For the event loop of gRPC (`tutti.chassis.rpc.eventloop`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import grpc
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from tutti.backbone.backoff import Backoff
from tutti.chassis.errors import Problem, from_status
from tutti.chassis.identity.auth import AUTHORIZATION, SCHEME
from tutti.chat.tokens import Event, admission, events_of
from tutti.contracts.chat.v1 import CancelRequest, FollowRequest, FollowResponse, Opened
from tutti.contracts.chat.v1.stubs import ReplicaServiceStub
from tutti.inference.engine import Join
from tutti.platform.heartbeattimeout import HeartbeatTimeout

BACKOFF = Backoff(0.05, 2.0)
CALL_SECONDS = 10.0
"""A replica that answers heartbeats answers calls within this time, or its session is given up."""
_GONE = frozenset({"STREAM_ENDED"})
log = logging.getLogger(__name__)


class LinkLost(Exception):
    """The session ended; the message is a predicate of the replica: "was silent for 2 s"."""


Inbox: TypeAlias = asyncio.Queue[list[Event] | LinkLost | Problem]
Connect: TypeAlias = Callable[[str], grpc.aio.Channel]
"""Returns a new channel to an address."""


class Session:
    """The requests of one stream at a replica; `lost` is the reason why it ended. Inboxes get events and errors."""

    def __init__(self, link: "Link", opened: Opened, stub: Any) -> None:
        self.link, self.opened, self.lost = link, opened, ""
        self._stub, self._inboxes = stub, dict[str, Inbox]()
        self._admissions = dict[str, asyncio.Task[None]]()

    @property
    def in_hand(self) -> int:
        """The number of requests that it works on."""
        return len(self._inboxes)

    def admit(self, request: Join) -> Inbox:
        """Send a request, whose id is a string; what comes of it is in the inbox."""
        name, inbox = str(request.id), Inbox()
        if self.lost:
            inbox.put_nowait(LinkLost(self.lost))
            return inbox
        self._inboxes[name] = inbox
        self._admissions[name] = self.link.spawn(self._admit(request, inbox))
        return inbox

    def leave(self, name: str, *, ended: bool) -> None:
        """Take no more of a request; one that has not ended is cancelled at the replica."""
        self._inboxes.pop(name, None)
        admission = self._admissions.pop(name, None)
        if not ended and not self.lost and admission is not None:
            self.link.spawn(self._cancel(name, admission))

    def take(self, message: FollowResponse) -> None:
        """Put the events of a message into the inboxes of their requests; those of requests that left are dropped."""
        told = dict[str, list[Event]]()
        for event in events_of(message):
            told.setdefault(str(event.id), []).append(event)
        for name, events in told.items():
            if name in self._inboxes:
                self._inboxes[name].put_nowait(events)

    def lose(self, reason: str) -> None:
        self.lost = reason
        for inbox in self._inboxes.values():
            inbox.put_nowait(LinkLost(reason))
        self._inboxes.clear()
        self._admissions.clear()

    async def _admit(self, request: Join, inbox: Inbox) -> None:
        try:
            await self._stub.Admit(
                admission(self.opened.session, request), metadata=self.link.metadata, timeout=CALL_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            problem = _problem_of(error)
            if problem.transient or problem.reason in _GONE:
                self.link.drop(self, f"did not take a request: {problem.message}")
            else:
                inbox.put_nowait(problem)

    async def _cancel(self, name: str, admission: "asyncio.Task[None]") -> None:
        """Cancel a request once its admission was answered: a replica must not meet the two in the other order."""
        await asyncio.wait({admission})
        try:
            request = CancelRequest(session=self.opened.session, request=name)
            await self._stub.Cancel(request, metadata=self.link.metadata, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self.link.drop(self, f"did not cancel a request: {error.details()}")


class Link:
    """`session` is None while the replica is not followed, and `reason` says why. `changed` is called when it changes.

    Call `start`, and `close` at the end.
    """

    def __init__(
        self, address: str, connect: Connect, token: str, changed: Callable[[], None], *, silence_seconds: float
    ) -> None:
        self.address, self.reason = address, "was not reached yet"
        self.session: Session | None = None
        self.metadata = ((AUTHORIZATION, SCHEME + token),)
        self._connect, self._changed, self._silence = connect, changed, silence_seconds
        self._tasks = set[asyncio.Task[None]]()
        self._dropped = asyncio.Event()

    def start(self) -> None:
        self.spawn(self._run())

    async def close(self) -> None:
        """Leave the replica, which ends what this link asked of it."""
        self.reason, tasks = "is not in use any more", list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop(self, session: Session, reason: str) -> None:
        """Give a session up; the replica is followed again."""
        if session is self.session:
            self.reason = reason
            self._dropped.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self) -> None:
        failures = 0
        while True:
            # Each try has a channel of its own: one that failed waits ever longer before it connects again.
            channel = self._connect(self.address)
            try:
                await self._follow(ReplicaServiceStub(channel))
            except LinkLost as lost:
                self.reason = str(lost)
            except grpc.aio.AioRpcError as error:
                self.reason = f"does not answer: {_problem_of(error).message}"
            except Exception as error:
                log.exception("the link to the replica at %s failed", self.address)
                self.reason = f"could not be followed: {type(error).__name__}: {error}"
            finally:
                failures = 0 if self._lose() else failures + 1
                await channel.close()
            await asyncio.sleep(BACKOFF.drawn(failures + 1))

    def _lose(self) -> bool:
        """End the session; True if there was one."""
        session, self.session = self.session, None
        if session is None:
            return False
        session.lose(self.reason)
        self._changed()
        return True

    async def _follow(self, stub: ReplicaServiceStub) -> None:
        """Take the messages of a stream until it is lost. Raises LinkLost, AioRpcError."""
        loop = asyncio.get_running_loop()
        timeout, self._dropped = HeartbeatTimeout(self._silence, loop.time()), asyncio.Event()
        call: Any = stub.Follow(FollowRequest(), metadata=self.metadata)
        dropped = asyncio.ensure_future(self._dropped.wait())
        reading = asyncio.ensure_future(call.read())
        try:
            while True:
                await asyncio.wait({reading, dropped}, timeout=self._silence / 8, return_when=asyncio.FIRST_COMPLETED)
                if dropped.done():
                    raise LinkLost(self.reason)
                if timeout.over(loop.time(), heard=reading.done()):
                    raise LinkLost(f"was silent for {self._silence:g} s")
                if reading.done():
                    message = reading.result()
                    if message is grpc.aio.EOF:
                        raise LinkLost("ended its stream")
                    self._take(message, stub)
                    reading = asyncio.ensure_future(call.read())
        finally:
            for each in (call, reading, dropped):
                each.cancel()
            await asyncio.wait({reading, dropped})  # unlike `await reading`, it is cancelled with this task alone
            if not reading.cancelled():
                reading.exception()  # an error that nobody waits for any more

    def _take(self, message: FollowResponse, stub: ReplicaServiceStub) -> None:
        if self.session is None:
            if not message.HasField("opened"):
                raise LinkLost("did not say what it serves in its first message")
            self.session = Session(self, message.opened, stub)
            self.reason = "is followed"
            self._changed()
        try:
            self.session.take(message)
        except ValueError as error:
            raise LinkLost(f"said something that is not known here: {error}") from None


def _problem_of(error: grpc.aio.AioRpcError) -> Problem:
    """The problem in an error of a call, without the look for its cause, which would hold up the event loop."""
    try:
        status = rpc_status.from_call(error)  # type: ignore[arg-type]
    except ValueError:
        status = None
    return from_status(status or Status(code=error.code().value[0], message=error.details() or ""))
