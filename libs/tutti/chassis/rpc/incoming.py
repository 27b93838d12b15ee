"""Incoming calls before their message: which handler receives it, by the credential in the metadata.

Promises: only of a service, whose token is known here, does gRPC receive the message before the handler runs; of all
others the handler receives it, once it has looked at their credential.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from tutti.chassis.identity.auth import AUTHORIZATION, SCHEME

CHECK, CALLED = "CheckCredential", "tutti-called"
"""The metadata with the method for which the front door asks whether a credential is valid."""


@dataclass
class Incoming:
    """The message of a call; `data` is None until it was received from `requests`."""

    data: bytes | None
    requests: AsyncIterator[bytes] = field(default_factory=lambda: _nothing())


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


class Handlers(grpc.GenericRpcHandler):
    """Chooses how the message of a call is received before any of it is: by the credential in the metadata."""

    def __init__(self, is_service: Callable[[str], bool]) -> None:
        self._is_service = is_service
        self._of_services: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._of_others: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}

    def add(
        self,
        path: str,
        of_services: "grpc.RpcMethodHandler[Any, Any]",
        of_others: "grpc.RpcMethodHandler[Any, Any]",
    ) -> None:
        self._of_services[path], self._of_others[path] = of_services, of_others

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        metadata = dict(handler_call_details.invocation_metadata or ())
        header = str(metadata.get(AUTHORIZATION, ""))
        known = header.startswith(SCHEME) and self._is_service(header.removeprefix(SCHEME))
        return (self._of_services if known else self._of_others).get(str(handler_call_details.method))
