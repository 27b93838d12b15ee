"""The gRPC server: sync domain methods behind an asynchronous front.

Promises: nobody gets in without a token of a role that the method declares; every answer is a message or a typed
status, never a traceback; a method that is not done by its deadline is answered for; one that reads data whole keeps no
other from its thread; who is not let in is recorded, and so is a change that was refused or failed; drained means that
nothing new is let in and what is inside ends by itself, or is named.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2_grpc
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.errors import (
    DeadlineExceeded,
    Internal,
    InvalidField,
    PermissionDenied,
    Problem,
    TooLarge,
    Unauthenticated,
    Unavailable,
    problem_of,
    to_status,
)
from tutti.chassis.identity.auth import AUTHORIZATION, SCHEME, Role, Tokens
from tutti.chassis.identity.cause import Cause, caused_by
from tutti.chassis.identity.principal import ON_BEHALF_OF, Principal, delegated
from tutti.chassis.metrics import metrics
from tutti.chassis.rpc import eventloop
from tutti.chassis.rpc.addresses import FORWARDED, address_of, verified
from tutti.chassis.rpc.admission import Patient, Receiving
from tutti.chassis.rpc.call import Call, request_id_of
from tutti.chassis.rpc.descriptors import Connections, most_connections
from tutti.chassis.rpc.health import Health
from tutti.chassis.rpc.incoming import CALLED, CHECK, Handlers, Incoming
from tutti.chassis.rpc.listening import listening, server_options
from tutti.chassis.rpc.methods import Method, check_api, find_method, methods_of
from tutti.chassis.rpc.reflected import reflect
from tutti.chassis.rpc.required import check_values
from tutti.chassis.rpc.tls import Tls
from tutti.chassis.service import Served
from tutti.chassis.spans import TRACEPARENT
from tutti.chassis.telemetry import span_from

T = TypeVar("T")
log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]
Metadata = dict[str, str]
FLUSH_SECONDS = 0.3  # for answers that are on their way out
NEVER_SECONDS = 3600.0


class CannotListen(Exception):
    """The address cannot be used: which, why, what to do."""


class Source(Protocol):
    """The implementation of a method: a function of the request, or for a stream an iterator of either kind."""

    def __call__(self, request: Any, call: Call) -> Any: ...


@dataclass(frozen=True)
class Refusal:
    """A call of a gRPC service that was refused or failed; `principal` is None where nobody was authenticated."""

    service: str
    action: str
    reason: str
    principal: Principal | None
    address: str


class RpcServer:
    """Serves `served` from `start` to `stop`. Raises BadService when one of them cannot be served.

    `record` writes a refusal, and how often it happened, into the audit trail; `find_user` returns whose token it is if
    it is no role's. Both are called in threads.
    """

    def __init__(
        self,
        served: Sequence[Served],
        *,
        settings: RpcSettings,
        tokens: Tokens,
        health: Health,
        record: Callable[[Refusal, int], None],
        find_user: Callable[[str], Principal | None] = lambda token: None,
        tls: Tls | None = None,
    ) -> None:
        self._settings, self._tokens, self._health = settings, tokens, health
        self._record, self._find_user, self._tls = record, find_user, tls
        self._door_secret = tokens.door_secret
        self._refused: dict[Refusal, int] = {}
        self._recording = asyncio.Lock()
        self._askers = ThreadPoolExecutor(4, thread_name_prefix="rpc asker")
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="rpc")
        self._readers = ThreadPoolExecutor(settings.readers, thread_name_prefix="rpc reader")
        self._inside: dict[asyncio.Task[Any], str] = {}
        labels = ["method", "kind", "code"]
        self._seconds = metrics.histogram("rpc_server_seconds", "Time to answer a call", "seconds", labels)
        self._receiving, self._connections = Receiving(), Connections(most_connections())
        self._front = Handlers(self._is_service)
        self._names: list[str] = []
        for each in served:
            methods = methods_of(each.descriptor)
            check_api(each.descriptor, each.api)
            self._names.append(each.descriptor.full_name)
            for method in methods:
                self._front.add(method.path, *self._handler(method, getattr(each.api, method.name)))
        self.address = ""

    def start(self) -> str:
        """Listen; the address with the port that it got. Raises CannotListen."""
        self.address = eventloop.run(self._start(), 30)
        return self.address

    def drain(self, seconds: float) -> list[str]:
        """Let nothing new in and wait for what is inside; the methods that had not ended by then and were cut off."""
        late: list[str] = eventloop.run(self._drain(seconds), seconds + 10)
        for threads in (self._threads, self._readers, self._askers):
            threads.shutdown(wait=False, cancel_futures=True)
        return late

    async def _start(self) -> str:
        self._draining = asyncio.Event()
        server = grpc.aio.server(options=server_options(self._settings), interceptors=[Patient(self._names)])
        server.add_generic_rpc_handlers((self._front,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        reflect([*self._names, "grpc.health.v1.Health"], server)
        listen = self._settings.listen
        try:
            port = listening(server, listen, self._tls)
        except RuntimeError:
            raise CannotListen(
                f"cannot listen at {listen}: the port is in use, or the address is not this machine's; "
                f"choose another with --port (the setting rpc.listen), port 0 takes any free one"
            ) from None
        await server.start()
        self._server = server
        self._connections.watch(port)
        return f"{listen.rpartition(':')[0]}:{port}"

    async def _drain(self, seconds: float) -> list[str]:
        self._draining.set()
        self._connections.close()
        # A stop that comes to its deadline just when another has ended the server uses what gRPC has freed: so this
        # one has none in practice, and the next is given none.
        stopping = asyncio.ensure_future(self._server.stop(seconds + NEVER_SECONDS))
        deadline = time.monotonic() + seconds
        while self._inside and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        late = sorted(set(self._inside.values()))
        # Streams that are not ours (health) would take all the time there is.
        await asyncio.wait({stopping}, timeout=FLUSH_SECONDS)
        await self._server.stop(None)
        await stopping
        return late

    def _is_service(self, token: str) -> bool:
        return self._tokens.role_of(token) is Role.SERVICE

    def _handler(
        self, method: Method, answer: Source
    ) -> tuple["grpc.RpcMethodHandler[Any, Any]", "grpc.RpcMethodHandler[Any, Any]"]:
        """Return the handlers for services, whose message gRPC receives, and for all others, who are asked first."""

        async def answered(message: Incoming, context: Context) -> Any:
            metadata = _metadata(context)
            answering: Any = self._stream if method.streams else self._unary
            work = answering(method, answer, message, context, metadata)
            return await self._guarded(method, message, context, metadata, work)

        async def of_service(data: bytes, context: Context) -> Any:
            return await answered(Incoming(data), context)

        async def of_others(requests: AsyncIterator[bytes], context: Context) -> Any:
            return await answered(Incoming(None, requests), context)

        if method.streams:
            return grpc.unary_stream_rpc_method_handler(of_service), grpc.stream_stream_rpc_method_handler(of_others)
        return grpc.unary_unary_rpc_method_handler(of_service), grpc.stream_unary_rpc_method_handler(of_others)

    async def _guarded(
        self, method: Method, message: Incoming, context: Context, metadata: Metadata, work: Coroutine[Any, Any, T]
    ) -> T:
        """Run the answer inside its span; whatever it raises becomes a status."""
        task, started, code = asyncio.current_task(), time.perf_counter(), "OK"
        assert task is not None
        self._inside[task] = method.name
        try:
            with span_from(metadata.get(TRACEPARENT, ""), method.path[1:], kind=SpanKind.SERVER) as span:
                try:
                    return await work
                except asyncio.CancelledError:
                    code = "CANCELLED"
                    raise
                except Exception as error:
                    problem = _problem(error, method)
                    code = problem.code
                    span.set_attribute("rpc.grpc.status_code", code)
                    error.__traceback__ = None  # its frames refer to it: all would stay until a garbage collection
                    raise problem from (None if problem is error else error)
        except Problem as problem:
            await self._recorded(method, message, context, metadata, problem)
            await context.abort_with_status(rpc_status.to_status(to_status(problem)))
            raise AssertionError("unreachable: abort raises") from None
        finally:
            del self._inside[task]
            self._seconds.labels(method.path, method.kind, code).observe(time.perf_counter() - started)

    async def _unary(
        self, method: Method, answer: Source, message: Incoming, context: Context, metadata: Metadata
    ) -> bytes:
        call, request = await self._admit(method, message, context, metadata)
        try:
            work = self._in_thread(method, call, answer, request, call)
            response = await asyncio.wait_for(work, call.deadline_seconds)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{method.name} had no answer within {call.deadline_seconds:.1f} s; {method.unanswered}"
            ) from None
        return _serialized(method, response)

    async def _stream(
        self, method: Method, answer: Source, received: Incoming, context: Context, metadata: Metadata
    ) -> None:
        call, request = await self._admit(method, received, context, metadata)
        draining = asyncio.ensure_future(self._draining.wait())
        items = self._items(method, answer, request, call)
        try:
            while True:
                following = asyncio.ensure_future(anext(items, None))
                try:
                    await asyncio.wait({following, draining}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not following.done():
                        following.cancel()
                if not following.done() or following.cancelled():
                    raise Unavailable(f"{method.name} ends because its server stops: call again")
                message = following.result()
                if message is None:
                    return
                await context.write(_serialized(method, message))
        finally:
            draining.cancel()
            await _settled(following)
            await items.aclose()

    async def _items(
        self, method: Method, answer: Source, request: Message, call: Call
    ) -> AsyncGenerator[Message, None]:
        """The messages of a stream, whether it is written with or without async."""
        if inspect.isasyncgenfunction(answer):
            found = answer(request, call)
            try:
                async for item in found:
                    yield item
            finally:
                await found.aclose()
            return
        iterator: Iterator[Message] = iter(await self._in_thread(method, call, answer, request, call))
        while (item := await self._in_thread(method, call, next, iterator, None)) is not None:
            yield item

    async def _admit(
        self, method: Method, message: Incoming, context: Context, metadata: Metadata
    ) -> tuple[Call, Message]:
        """Authenticate a call, then receive and parse its message.

        Raises Unauthenticated, PermissionDenied, TooLarge, InvalidField, DeadlineExceeded, Unavailable.
        """
        role, user = await self._caller(method, metadata.get(AUTHORIZATION, ""))
        user = _on_behalf_of(method, role, metadata.get(ON_BEHALF_OF, "")) or user
        self._connections.credit(context.peer())
        if (data := message.data) is None:
            try:
                data = message.data = await self._receiving.receive(message.requests, method.name)
            except StopAsyncIteration:
                raise InvalidField("request", seen="nothing", expected=f"a {method.request.__name__}") from None
        limit = self._settings.max_message_bytes
        if len(data) > limit:
            raise TooLarge(
                f"the request of {method.name} has {len(data)} bytes, at most {limit} are accepted: send data by blob"
            )
        try:
            request = method.request.FromString(data)
        except DecodeError:
            seen = f"{len(data)} bytes that are none"
            raise InvalidField("request", seen=seen, expected=f"a {method.request.DESCRIPTOR.full_name}") from None
        check_values(request)
        remaining = context.time_remaining()
        deadline = self._settings.deadline_seconds if remaining is None else remaining
        return Call(role, request_id_of(request), self._address(context, metadata), deadline, user), request

    async def _caller(self, method: Method, header: str) -> tuple[Role, Principal | None]:
        """The role that the call is admitted for, and the user behind it if the token is a user's own."""
        if not header.startswith(SCHEME):
            raise Unauthenticated(
                f"{method.name} needs a token: send the metadata `authorization: Bearer TOKEN`; "
                f"the tokens are in the file `tokens` of the data directory"
            )
        token = header.removeprefix(SCHEME)
        role, user = self._tokens.role_of(token), None
        if role is not None:
            roles = frozenset({role})
        else:
            # Not in the threads of methods: access may be asked for it here, too.
            user = self._bound(token) or await eventloop.event_loop().run_in_executor(
                self._askers, self._find_user, token
            )
            if user is None:
                raise Unauthenticated("the token is not one of this platform: take it from the file `tokens`")
            roles = user.roles
        if not (admitted := sorted(roles & method.roles, key=lambda each: each.value)):
            may, has = (", ".join(sorted(each.value for each in some)) for some in (method.roles, roles))
            raise PermissionDenied(f"{method.name} may be called by {may}, not by {has}")
        return admitted[0], user

    def _bound(self, token: str) -> Principal | None:
        """The agent of a node, whose token needs no question to access."""
        node = self._tokens.node_of(token)
        return Principal.of_node(f"nodes/{node}") if node else None

    async def _recorded(
        self, method: Method, message: Incoming, context: Context, metadata: Metadata, problem: Problem
    ) -> None:
        """Write down who was not let in, and that a call of a user which changes something was refused or failed."""
        denied = isinstance(problem, Unauthenticated | PermissionDenied)
        if not denied and (not method.changes or method.only_checks(message.data or b"")):
            return
        who: Principal | None = None
        if not isinstance(problem, Unauthenticated):
            try:
                who = await self._principal(metadata)
            except Exception as error:
                log.warning("the refusal of %s could not be recorded: %s", method.path, error)
                return
        if denied or (who is not None and not who.is_machine):
            address = self._address(context, metadata)
            called = find_method(metadata.get(CALLED, "")) if method.name == CHECK else None  # as the front door says
            await self._counted(Refusal(method.service, (called or method).path[1:], problem.reason, who, address))

    async def _counted(self, refusal: Refusal) -> None:
        """Record a refusal; the same one that comes before it is written is counted with it, so that few are written.

        It is written even if its call is cancelled.
        """
        if refusal in self._refused:
            self._refused[refusal] += 1
            return
        self._refused[refusal] = 1
        await asyncio.shield(self._write(refusal))

    async def _write(self, refusal: Refusal) -> None:
        """Write a refusal down, one at a time; its call is answered even where that fails."""
        async with self._recording:
            times = self._refused.pop(refusal)
            try:
                await eventloop.event_loop().run_in_executor(self._askers, self._record, refusal, times)
            except Exception as error:
                log.warning("the refusal of %s could not be recorded: %s", refusal.action, error)

    async def _principal(self, metadata: Metadata) -> Principal | None:
        """On whose behalf a call is made. Raises Unavailable while access is away."""
        token = metadata.get(AUTHORIZATION, "").removeprefix(SCHEME)
        role = self._tokens.role_of(token)
        if role is not None:  # no thread: those who ask access may all wait for the call that fails here
            return delegated(metadata.get(ON_BEHALF_OF, ""), role) or Principal.of_role(role)
        return self._bound(token) or await eventloop.event_loop().run_in_executor(self._askers, self._find_user, token)

    def _address(self, context: Context, metadata: Metadata) -> str:
        """The address of the caller, which is that of the front door's caller where the door passed the call on."""
        return verified(metadata.get(FORWARDED, ""), self._door_secret) or address_of(context.peer())

    def _in_thread(self, method: Method, call: Call, fn: Callable[..., T], *args: Any) -> Awaitable[T]:
        """Inside the call's span; what it records is an effect of the call's request."""
        run = contextvars.copy_context().run

        def work() -> T:
            cause = Cause(call.request_id, principal=call.principal, action=method.path[1:], address=call.peer)
            with caused_by(cause):
                return fn(*args)

        threads = self._readers if method.long else self._threads
        return eventloop.event_loop().run_in_executor(threads, lambda: run(work))


def _on_behalf_of(method: Method, role: Role, value: str) -> Principal | None:
    """Raises PermissionDenied unless a service names somebody."""
    if not value:
        return None
    found = delegated(value, role)
    if found is None:
        raise PermissionDenied(
            f"{method.name} was called by {role.value} with the metadata {ON_BEHALF_OF}: only a service may send it, "
            f"as `users/ID tenants/ID`"
        )
    return found


def _metadata(context: Context) -> Metadata:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _serialized(method: Method, response: object) -> bytes:
    if not isinstance(response, method.response):
        raise TypeError(f"{method.name} answered with {type(response).__name__}, not {method.response.__name__}")
    return response.SerializeToString()


def _problem(error: Exception, method: Method) -> Problem:
    """The problem to report to the caller; a defect gets an id that is in the log beside the traceback."""
    problem = problem_of(error)
    if not isinstance(problem, Internal):
        return problem
    incident = uuid.uuid4().hex[:12]
    log.error("%s failed, incident %s", method.path, incident, exc_info=error)
    return Internal(
        f"{method.name} failed by a defect of ours; the log has the incident {incident}",
        metadata={"incident": incident},
    )


async def _settled(future: asyncio.Future[Any]) -> None:
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await future
