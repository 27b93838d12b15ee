"""Credentials of callers, as the front door sees them: it has none of its own, and asks access with that of the caller.

Promises: an answer is used for five seconds; a caller without a credential costs no question; while access is away,
callers are passed on, and the services look at their credentials themselves.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import grpc

from tutti.chassis.errors import Unauthenticated
from tutti.chassis.identity.auth import SCHEME
from tutti.contracts.access.v1 import CheckCredentialRequest
from tutti.contracts.access.v1.access_pb2 import DESCRIPTOR

FRESH_SECONDS = 5.0
MOST = 4096
"""Answers that are remembered."""
CHECK = f"/{DESCRIPTOR.services_by_name['AccessService'].full_name}/CheckCredential"
Metadata = list[tuple[str, str]]


class Credentials:
    """`ask` calls access with metadata; for one event loop."""

    def __init__(self, ask: Callable[[bytes, Metadata], Awaitable[bytes]]) -> None:
        self._ask = ask
        self._known: OrderedDict[str, tuple[float, asyncio.Task[grpc.aio.AioRpcError | None]]] = OrderedDict()

    async def check(self, header: str, metadata: Metadata) -> None:
        """Raises Unauthenticated without a credential, AioRpcError with that of access for one that is not valid."""
        if not header.startswith(SCHEME):
            raise Unauthenticated("this call needs a token: send the metadata `authorization: Bearer TOKEN`")
        key, now = hashlib.sha256(header.encode()).hexdigest(), time.monotonic()
        asked_at, asking = self._known.get(key, (float("-inf"), None))
        if asking is None or now - asked_at >= FRESH_SECONDS:
            asking = asyncio.ensure_future(self._checked(metadata))  # callers of the same moment share the question
            self._known[key] = (now, asking)
            self._known.move_to_end(key)
            if len(self._known) > MOST:
                self._known.popitem(last=False)
        if (refused := await asyncio.shield(asking)) is not None:
            raise refused

    async def _checked(self, metadata: Metadata) -> grpc.aio.AioRpcError | None:
        try:
            await self._ask(CheckCredentialRequest().SerializeToString(), metadata)
        except grpc.aio.AioRpcError as error:
            return error if error.code() is grpc.StatusCode.UNAUTHENTICATED else None
        return None
