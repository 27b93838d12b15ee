"""The typed client: every service of a platform behind one object.

Promises: calls raise Problem (Unreachable when nobody answers) and say what to do; a service that came back at another
port is found again; connecting changes nothing in the data directory.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pool import Default as default_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tutti.backbone.backoff import Backoff
from tutti.chassis.config.datadir import DEFAULT, LOOPBACK, DataDirError, endpoint_in, is_found, require_ours, tokens_in
from tutti.chassis.errors import InvalidField, Problem, Unauthenticated, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.channel import RpcChannel, Unreachable
from tutti.chassis.rpc.kinds import owners
from tutti.chassis.rpc.locator import nobody
from tutti.chassis.rpc.tls import Tls
from tutti.client.fan import AdminFan
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.contracts.admin.v1 import WatchRequest
from tutti.contracts.annotation.v1.stubs import AnnotationServiceStub
from tutti.contracts.chat.v1.stubs import ChatServiceStub
from tutti.contracts.committer.v1.stubs import CommitterServiceStub
from tutti.contracts.dedup.v1.stubs import DedupServiceStub
from tutti.contracts.evaluation.v1.stubs import ComparisonServiceStub, ReleaseServiceStub
from tutti.contracts.ingest.v1.stubs import IngestServiceStub
from tutti.contracts.lineage.v1.stubs import LineageServiceStub
from tutti.contracts.pipeline.v1.stubs import PipelineServiceStub
from tutti.contracts.sampling.v1.stubs import ExperienceServiceStub, SamplingServiceStub
from tutti.contracts.scheduler.v1.stubs import SchedulerServiceStub
from tutti.contracts.tokenization.v1.stubs import TokenizationServiceStub

__all__ = ["READING_SECONDS", "Client", "Problem", "Unreachable", "connect"]

TOKEN_VARIABLE = "TUTTI_TOKEN"  # noqa: S105 - the name of a variable
DEADLINE_SECONDS = 10.0
WATCH_BACKOFF = Backoff(0.05, 2.0)
READING_SECONDS = 3600.0
"""Deadline of a call that reads everything before it answers."""


def connect(
    data_dir: Path | str | None = None,
    *,
    address: str | None = None,
    addresses: Mapping[str, str] | None = None,
    token: str | None = None,
    role: Role = Role.OPERATOR,
    deadline_seconds: float = DEADLINE_SECONDS,
    tls: Tls | None = None,
    proxy: str = "",
) -> "Client":
    """A client of the platform of a data directory, or of the one at `address` (or at an address a service).

    `tls` names the authority that is trusted where the platform speaks TLS. `proxy` is the URL of an HTTP proxy that
    connects to `address` or `addresses`; the variables of the environment that name one have no effect.
    With an address the token is `token` or $TUTTI_TOKEN. With a directory alone it is `token`, or that of `role` in the
    directory; $TUTTI_TOKEN is never sent to an address that a directory names. Nothing is sent yet. Raises Unreachable
    when the directory has no platform, Unauthenticated without a token, or where another account can use the directory.
    """
    where, token = Path(data_dir) if data_dir is not None else None, token or ""
    if address is not None or addresses:
        token = token or os.environ.get(TOKEN_VARIABLE, "")
    else:
        where = where or DEFAULT
        try:
            require_ours(where)
        except DataDirError as error:
            raise Unauthenticated(str(error)) from None
        if not any(endpoint_in(where, service) for service in sorted(set(owners().values()))):
            raise Unreachable(nobody(where))
    if not token and where is not None:
        try:
            token = tokens_in(where).of(role)
        except DataDirError as error:
            raise Unauthenticated(str(error)) from None
    if not all("!" <= character <= "~" for character in token):
        raise Unauthenticated(
            f"the token has a line end, a blank or another character that no token has: give it (or set "
            f"{TOKEN_VARIABLE}) exactly as it stands in `tokens` of the data directory, one word"
        )
    if not token:
        raise Unauthenticated(f"no token: give one, or set {TOKEN_VARIABLE}; it is in `tokens` of the data directory")
    return Client(where, address, addresses or {}, token, deadline_seconds, tls, proxy)


def _elsewhere(addresses: str) -> str:
    """Return the first of several addresses that other machines may have, "" if there is none."""
    hosts = {each: each.rpartition(":")[0].strip("[]") for each in addresses.split(",")}
    return next((each for each, host in hosts.items() if host not in {*LOOPBACK, "0.0.0.0", "::"}), "")  # noqa: S104


class Client:
    """Made by `connect`, or by `of_channels`; safe for any thread.

    Stubs are typed: `client.scheduler.GetJob(GetRequest(name="jobs/x"))`.
    """

    def __init__(
        self,
        data_dir: Path | None,
        address: str | None,
        addresses: Mapping[str, str],
        token: str,
        deadline: float,
        tls: Tls | None = None,
        proxy: str = "",
    ) -> None:
        self._data_dir, self._address, self._addresses = data_dir, address, dict(addresses)
        self._token, self._deadline = token, deadline
        self._channels: dict[str, grpc.Channel] = {}
        self._make: Callable[[str], grpc.Channel] = lambda service: RpcChannel(
            lambda: self.address(service),
            token=self._token,
            deadline_seconds=self._deadline,
            tls=tls,
            proxy=proxy if self._given(service) else "",
        )

    @classmethod
    def of_channels(cls, make: Callable[[str], grpc.Channel]) -> Self:
        """Return a client whose channels to services are made by a function."""
        client = cls(None, None, {}, "", DEADLINE_SECONDS)
        client._make = make
        return client

    def address(self, service: str) -> str:
        """The current address of a service. Raises Unreachable."""
        if (given := self._given(service)) is not None:
            return given
        if self._data_dir is None:
            raise Unreachable(f"no address of {service} was given: give one for it, or one for all services")
        if not (found := endpoint_in(self._data_dir, service)):
            raise Unreachable(nobody(self._data_dir, service))
        if is_found(self._data_dir) and (elsewhere := _elsewhere(found)):
            raise Unreachable(
                f"{self._data_dir} names {elsewhere}, which is no address of this machine, and nobody named the "
                f"directory: give it with --data-dir if it is yours, or the address with --address"
            )
        return found

    def _given(self, service: str) -> str | None:
        return self._addresses.get(service) or self._address

    def channel(self, service: str) -> grpc.Channel:
        if service not in self._channels:
            self._channels[service] = self._make(service)
        return self._channels[service]

    @cached_property
    def ingest(self) -> IngestServiceStub:
        return IngestServiceStub(self.channel("ingest"))

    @cached_property
    def dedup(self) -> DedupServiceStub:
        return DedupServiceStub(self.channel("dedup"))

    @cached_property
    def tokenization(self) -> TokenizationServiceStub:
        return TokenizationServiceStub(self.channel("tokenization"))

    @cached_property
    def pipeline(self) -> PipelineServiceStub:
        return PipelineServiceStub(self.channel("pipeline"))

    @cached_property
    def scheduler(self) -> SchedulerServiceStub:
        return SchedulerServiceStub(self.channel("scheduler"))

    @cached_property
    def chat(self) -> ChatServiceStub:
        return ChatServiceStub(self.channel("chat"))

    @cached_property
    def committer(self) -> CommitterServiceStub:
        return CommitterServiceStub(self.channel("committer"))

    @cached_property
    def lineage(self) -> LineageServiceStub:
        return LineageServiceStub(self.channel("lineage"))

    @cached_property
    def sampling(self) -> SamplingServiceStub:
        return SamplingServiceStub(self.channel("sampling"))

    @cached_property
    def experiences(self) -> ExperienceServiceStub:
        return ExperienceServiceStub(self.channel("sampling"))

    @cached_property
    def comparisons(self) -> ComparisonServiceStub:
        return ComparisonServiceStub(self.channel("evaluation"))

    @cached_property
    def releases(self) -> ReleaseServiceStub:
        return ReleaseServiceStub(self.channel("evaluation"))

    @cached_property
    def access(self) -> AccessServiceStub:
        return AccessServiceStub(self.channel("access"))

    @cached_property
    def annotation(self) -> AnnotationServiceStub:
        return AnnotationServiceStub(self.channel("annotation"))

    @cached_property
    def admin(self) -> AdminFan:
        """Admin of all services, wherever each is."""
        return AdminFan(self.channel, self.address, owners())

    def watch(self, name: str, *, since_revision: int = 0) -> Iterator[Message]:
        """Every snapshot of a resource from now on, across restarts of its service. Raises Problem, not Unavailable."""
        failures = 0
        while True:
            try:
                for response in self.admin.Watch(WatchRequest(name=name, since_revision=since_revision)):
                    failures, since_revision = 0, response.revision
                    yield unpacked(response.resource)
            except Unavailable:
                failures = min(failures + 1, 10)
            time.sleep(WATCH_BACKOFF.drawn(failures + 1))

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unpacked(resource: AnyMessage) -> Message:
    """The message in an Any whose type these contracts know."""
    try:
        descriptor = default_pool().FindMessageTypeByName(resource.TypeName())
    except KeyError:
        raise InvalidField("resource", seen=resource.TypeName(), expected="a type of these contracts") from None
    message: Message = GetMessageClass(descriptor)()
    resource.Unpack(message)
    return message
