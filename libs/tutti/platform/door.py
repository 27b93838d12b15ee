"""The front door: one gRPC address for every service, wherever each runs. `python -P -m tutti.platform.door`.

Promises: a call goes unchanged, with its token and deadline, to the service that owns its method, once access knows the
token; before that, no message is received and no other service is asked. The door has no secret but the one with which
it signs the addresses of callers; it holds no message that is much larger than a service accepts; a question to Admin
about the whole platform goes to every service, and a service that is away is a finding, not an error; a service that
cannot be reached is named, and a door that reaches none is unhealthy.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_status import rpc_status

from tutti.backbone.ours import close_to_others
from tutti.chassis.config.arguments import add_overrides, add_places
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.config.sections import RpcSettings
from tutti.chassis.config.settings import Settings, SettingsError, installed_services, load
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import InvalidField, Problem, Unavailable, to_status
from tutti.chassis.identity.auth import AUTHORIZATION
from tutti.chassis.metrics import MetricsServer, count_logs
from tutti.chassis.rpc.addresses import FORWARDED, address_of, signed
from tutti.chassis.rpc.admission import Patient, Receiving
from tutti.chassis.rpc.credentials import CHECK, Credentials
from tutti.chassis.rpc.descriptors import Connections, most_connections
from tutti.chassis.rpc.incoming import CALLED
from tutti.chassis.rpc.kinds import owners
from tutti.chassis.rpc.listening import listening, server_options
from tutti.chassis.rpc.methods import Method, find_method
from tutti.chassis.rpc.reflected import reflect
from tutti.chassis.rpc.server import CannotListen
from tutti.chassis.rpc.tls import Stamp, Tls, explained, tls_of
from tutti.chassis.runtime.healthfile import HealthFile, health_path
from tutti.chassis.version import VERSION
from tutti.contracts.admin.v1 import (
    DescribeResponse,
    DoctorResponse,
    ListAuditRecordsResponse,
    ListDeadLettersResponse,
)
from tutti.contracts.admin.v1.admin_pb2 import DESCRIPTOR as ADMIN_FILE
from tutti.platform import heartbeatpipe, logs
from tutti.platform.failures import guarded

Context = grpc.aio.ServicerContext[Any, Any]
log = logging.getLogger(__name__)
ADMIN = ADMIN_FILE.services_by_name["Admin"].full_name
DETAILS = "grpc-status-details-bin"
LOOK_SECONDS = 2.0
CHECK_SECONDS = 5.0  # for access to say whether a credential is valid
MOST_MESSAGES = 64  # of callers whose credentials are valid, received at once
ANSWER_SECONDS = 10.0  # of a call that brings no deadline
STOP_SECONDS = 5.0
RESERVE_SECONDS = 0.5  # of a caller's deadline, to answer for a service that did not
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_OF_THE_CONNECTION = ("grpc-", ":", "user-agent", "te", "content-type")


@dataclass(frozen=True)
class Found:
    """The health of a service, as the door sees it: the reason why it does not serve, empty if it does."""

    reason: str
    reached: bool = True


class Door(grpc.GenericRpcHandler):
    """`addresses` by name of the service; for the event loop that it is made on.

    With the `secret` of the door, services learn the addresses of callers; without it, they see that of the door.
    """

    def __init__(self, addresses: Mapping[str, str], tls: Tls | None = None, secret: str = "") -> None:
        self._addresses, self._tls, self._secret = dict(sorted(addresses.items())), tls, secret
        self._former: list[grpc.aio.Channel] = []
        self._stamp, self._channels = self._made()
        self._credentials = Credentials(self._ask_access)
        self._receiving, self.connections = Receiving(MOST_MESSAGES), Connections(most_connections())

    async def _ask_access(self, data: bytes, metadata: list[tuple[str, Any]]) -> bytes:
        call: Any = self._to("access").unary_unary(CHECK)
        answer: bytes = await call(data, metadata=metadata, timeout=CHECK_SECONDS)
        return answer

    async def _received(self, method: Method, requests: AsyncIterator[bytes], context: Context) -> bytes:
        """The message of a caller whose credential is valid, as far as access answers. Raises Problem, AioRpcError."""
        header = dict(context.invocation_metadata() or ()).get(AUTHORIZATION, "")
        if "access" in self._channels:
            await self._credentials.check(str(header), [*self._metadata(context), (CALLED, method.path)])
            self.connections.credit(context.peer())
        try:
            data: bytes = await self._receiving.receive(requests, method.name)
        except StopAsyncIteration:
            raise InvalidField("request", seen="nothing", expected=f"a {method.request.__name__}") from None
        return data

    def _made(self) -> tuple[Stamp, dict[str, grpc.aio.Channel]]:
        """A channel to every service, and the version of the certificates that they present."""
        stamp, credentials = (self._tls.stamp, self._tls.channel()) if self._tls else ((), None)
        return stamp, {name: connection_of_loop(each, credentials) for name, each in self._addresses.items()}

    def _to(self, owner: str) -> grpc.aio.Channel:
        if self._tls is not None and self._tls.stamp != self._stamp:
            self._former += self._channels.values()  # calls that they carry go on
            self._stamp, self._channels = self._made()
        return self._channels[owner]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        method = find_method(handler_call_details.method)
        if method is None:
            return None

        async def unary(requests: AsyncIterator[bytes], context: Context) -> bytes:
            try:
                data = await self._received(method, requests, context)
                if method.service == ADMIN and (together := await self._of_all(method, data, context)) is not None:
                    return together
                return await self._passed(method, self._owner(method, data), data, context)
            except (Problem, grpc.aio.AioRpcError) as error:
                await _refuse(context, error)

        async def stream(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            try:
                data = await self._received(method, requests, context)
                async for item in self._streamed(method, self._owner(method, data), data, context):
                    yield item
            except (Problem, grpc.aio.AioRpcError) as error:
                await _refuse(context, error)

        made = grpc.stream_stream_rpc_method_handler if method.streams else grpc.stream_unary_rpc_method_handler
        return made(stream if method.streams else unary)

    async def health(self) -> dict[str, Found]:
        """The health of each service, by name."""
        asked = [self._health(name) for name in self._channels]
        return dict(zip(self._channels, await asyncio.gather(*asked), strict=True))

    async def close(self) -> None:
        for channel in (*self._former, *self._channels.values()):
            await channel.close()

    def _owner(self, method: Method, data: bytes) -> str:
        """The service that answers a call. Raises InvalidField, Unavailable."""
        if method.service != ADMIN:
            owner = method.service.split(".")[1]
        else:
            try:
                request = method.request.FromString(data)
            except DecodeError:
                raise InvalidField("request", seen="bytes", expected=f"a {method.request.__name__}") from None
            if method.name == "Watch":
                kind = str(request.name).partition("/")[0]  # type: ignore[attr-defined]
                if kind not in owners():
                    raise InvalidField("name", seen=kind, expected=f"a resource of {', '.join(sorted(owners()))}")
                owner = owners()[kind]
            else:
                owner = str(getattr(request, "service", ""))
                if owner not in self._channels:
                    raise InvalidField("service", seen=owner, expected=f"one of {', '.join(self._channels)}")
        if owner not in self._channels:
            raise Unavailable(f"the front door has no address of {owner}: set services.{owner}")
        return owner

    def _metadata(self, context: Context) -> list[tuple[str, Any]]:
        """The caller's metadata, with the address of the caller instead of one that the caller claims."""
        given = context.invocation_metadata() or ()
        passed = [(key, value) for key, value in given if not key.startswith((*_OF_THE_CONNECTION, FORWARDED))]
        own = [(FORWARDED, signed(address_of(context.peer()), self._secret))] if self._secret else []
        return [*passed, *own]

    async def _passed(self, method: Method, owner: str, data: bytes, context: Context) -> bytes:
        call: Any = self._to(owner).unary_unary(method.path)
        try:
            answer: bytes = await call(data, metadata=self._metadata(context), timeout=_seconds(context))
        except grpc.aio.AioRpcError as error:
            raise await self._named(owner, error) from None
        return answer

    async def _streamed(self, method: Method, owner: str, data: bytes, context: Context) -> AsyncIterator[bytes]:
        begin: Any = self._to(owner).unary_stream(method.path)
        call = begin(data, metadata=self._metadata(context), timeout=context.time_remaining())
        try:
            async for item in call:
                yield item
        except grpc.aio.AioRpcError as error:
            raise await self._named(owner, error) from None
        finally:
            call.cancel()

    async def _of_all(self, method: Method, data: bytes, context: Context) -> bytes | None:
        """The merged answer of all services to a call about all of them; None if the call is for one service."""
        if method.name not in ("Describe", "Doctor", "ListAuditRecords", "ListDeadLetters"):
            return None
        if getattr(method.request.FromString(data), "service", ""):
            return None
        asked = [self._passed(method, name, data, context) for name in self._channels]
        answers: dict[str, Any] = {}
        away: dict[str, str] = {}
        for name, found in zip(self._channels, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(found, bytes):
                answers[name] = method.response.FromString(found)
            elif isinstance(found, Unavailable):
                away[name] = found.message
            else:
                raise found
        together: bytes = _together(method, answers, away).SerializeToString()
        return together

    async def _named(self, owner: str, error: grpc.aio.AioRpcError) -> Exception:
        """An error of the service as it came; one of the way to it names the service."""
        said = any(key == DETAILS for key, _ in error.trailing_metadata() or ())
        if said or error.code() not in AWAY:
            return error
        address, details = self._addresses[owner], error.details() or ""
        why = "no answer in time" if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED else details
        why = await asyncio.to_thread(explained, address, self._tls, details) or why
        return Unavailable(f"{owner} cannot be reached at {address}: {why}")

    async def _health(self, name: str) -> Found:
        stub: Any = health_pb2_grpc.HealthStub(self._to(name))
        try:
            found = await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=LOOK_SECONDS)
        except grpc.aio.AioRpcError as error:
            reason = f"cannot be reached at {self._addresses[name]} ({error.code().name})"
            return Found(reason, reached=error.code() not in AWAY)
        return Found("" if found.status == health_pb2.HealthCheckResponse.SERVING else "does not serve")


def health_of_door(services: Mapping[str, Found]) -> str:
    """The reason why the door is no way to any service; empty if it is to one.

    A door that reaches some is well: it passes calls to them, and another service has its own health.
    """
    if any(each.reached for each in services.values()):
        return ""
    return "reaches no service: " + "; ".join(f"{name} {each.reason}" for name, each in sorted(services.items()))


def _together(method: Method, answers: Mapping[str, Any], away: Mapping[str, str]) -> Any:
    """Raises Unavailable where a service that is away would be left out in silence."""
    if method.name == "Describe":
        services = [each for answer in answers.values() for each in answer.services]
        services += [DescribeResponse.ServiceInfo(name=name, reason=message) for name, message in away.items()]
        return DescribeResponse(version=VERSION, services=sorted(services, key=lambda each: each.name))
    if method.name == "Doctor":
        findings = [each for answer in answers.values() for each in answer.findings]
        findings += [
            DoctorResponse.Finding(service=name, check="address", message=message) for name, message in away.items()
        ]
        return DoctorResponse(findings=findings)
    if away:
        raise Unavailable("; ".join(away.values()))
    if method.name == "ListAuditRecords":
        records = [each for answer in answers.values() for each in answer.records]
        records.sort(key=lambda one: one.at.ToNanoseconds(), reverse=True)
        damaged = [each for answer in answers.values() for each in answer.damaged]
        return ListAuditRecordsResponse(records=records, damaged=damaged)
    letters = [each for answer in answers.values() for each in answer.dead_letters]
    return ListDeadLettersResponse(dead_letters=sorted(letters, key=lambda each: each.died_at.ToNanoseconds()))


def _seconds(context: Context) -> float:
    remaining = context.time_remaining()
    return ANSWER_SECONDS if remaining is None else max(remaining - RESERVE_SECONDS, remaining / 2)


async def _refuse(context: Context, error: Problem | grpc.aio.AioRpcError) -> NoReturn:
    if isinstance(error, Problem):
        await context.abort_with_status(rpc_status.to_status(to_status(error)))
    else:
        said = [(key, value) for key, value in error.trailing_metadata() or () if key == DETAILS]
        await context.abort(error.code(), error.details() or "", tuple(said))
    raise AssertionError("unreachable: abort raises")


class DoorServer:
    """The door's gRPC server, from `start` to `stop`."""

    def __init__(self, addresses: Mapping[str, str], rpc: RpcSettings, tls: Tls | None = None) -> None:
        self._tls = tls
        self.door, self.health = Door(addresses, tls, rpc.door_secret), health_aio.HealthServicer()
        self._server = grpc.aio.server(options=server_options(rpc), interceptors=[Patient(_served())])

    async def start(self, listen: str) -> str:
        """Listen; the address with the port that it got. Raises CannotListen."""
        self._server.add_generic_rpc_handlers((self.door,))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        reflect([*_served(), "grpc.health.v1.Health"], self._server)
        try:
            port = listening(self._server, listen, self._tls)
        except RuntimeError:
            raise CannotListen(f"cannot listen at {listen}: the port is in use, or the address is not here") from None
        await self._server.start()
        self.door.connections.watch(port)
        return f"{listen.rpartition(':')[0]}:{port}"

    async def stop(self) -> None:
        self.door.connections.close()
        await self._server.stop(STOP_SECONDS)
        await self.door.close()


async def serve(values: Settings, tls: Tls | None, health: HealthFile, heartbeat: heartbeatpipe.Heartbeat) -> None:
    """Until SIGTERM or SIGINT. Raises CannotListen."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = DoorServer(values.services, values.rpc, tls)
    address = await server.start(values.rpc.listen)
    log.info("the front door is at %s for %s", address, ", ".join(sorted(values.services)))
    await _look(server.door, server.health, health, heartbeat, stop)
    await server.stop()


async def _look(
    door: Door,
    told: health_aio.HealthServicer,
    file: HealthFile,
    heartbeat: heartbeatpipe.Heartbeat,
    stop: asyncio.Event,
) -> None:
    """Report the health of the services and of the door until `stop`."""
    before: dict[str, Found] = {}
    statuses = {True: health_pb2.HealthCheckResponse.SERVING, False: health_pb2.HealthCheckResponse.NOT_SERVING}
    while not stop.is_set():
        found = await door.health()
        for name, each in found.items():
            if each != before.get(name):
                log.info("%s %s", name, each.reason or "serves")
            await told.set(name, statuses[not each.reason])
        await told.set("", statuses[not any(each.reason for each in found.values())])
        before = found
        file.write(health_of_door(found))
        for _ in range(int(LOOK_SECONDS / heartbeatpipe.BEAT_SECONDS)):
            heartbeat.beat()
            try:
                await asyncio.wait_for(stop.wait(), heartbeatpipe.BEAT_SECONDS)
            except TimeoutError:
                continue


def _served() -> list[str]:
    """Full names of every gRPC service of this installation; their protos are imported."""
    names = [ADMIN]
    for service in installed_services():
        package = import_module(f"tutti.contracts.{service}.v1")
        for module in sorted(each.name for each in iter_modules(package.__path__) if each.name.endswith("_pb2")):
            file = import_module(f"{package.__name__}.{module}").DESCRIPTOR
            names += [each.full_name for each in file.services_by_name.values()]
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -P -m tutti.platform.door", description="One gRPC address for all.")
    add_places(parser)
    add_overrides(parser)
    given = parser.parse_args()
    close_to_others()

    def work() -> int:
        data_dir = DataDir(given.data_dir)
        values = load(given.config or data_dir.config, overrides=given.set).values
        if missing := sorted(set(installed_services()) - set(values.services)):
            raise SettingsError(f"the front door has no address of {', '.join(missing)}: set services.NAME=HOST:PORT")
        logs.configure("door", values.telemetry.level)
        count_logs()
        heartbeat = heartbeatpipe.hold(lambda: os.kill(os.getpid(), signal.SIGTERM))
        health, tls = HealthFile(health_path(data_dir.path, "door")), tls_of(values.tls)
        with closing(MetricsServer(values.telemetry.metrics_listen)) as scraped:
            log.info("its metrics are at http://%s/metrics", scraped.address)
            asyncio.run(serve(values, tls, health, heartbeat))
        return 0

    return guarded(work, troubles=(CannotListen,))


if __name__ == "__main__":
    sys.exit(main())
