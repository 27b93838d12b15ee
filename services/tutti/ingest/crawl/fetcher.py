"""The fetcher: one request, one answer, within limits.

Promises: no answer takes more memory or time than its limits, whatever the server does; what went wrong has a reason.
Nothing is kept between two requests but connections: no cookies, no credentials, no proxy of the environment.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from tutti.ingest.crawl.addresses import PrivateAddress, socket_factory
from tutti.ingest.crawl.fetching import HELD_BYTES, Answer, Limits
from tutti.ingest.crawl.resolver import Connect
from tutti.ingest.failures import Failure, FetchFailed
from tutti.ingest.ranges import EVERY

_PIECE = 64 << 10
_MAX_HEADER = 32 << 10
_SMALL = 256 << 10
"""Bytes of a body that need no room."""
UNWANTED_BYTES = 64 << 10
"""Bytes read of a body of another type: to read small ones completely is cheaper than to connect again."""


class Fetcher:
    """A client with connections of its own; to be used in one event loop, with `async with`.

    `wanted`: content types; of bodies of others the first UNWANTED_BYTES are taken.
    """

    def __init__(
        self,
        agent: str,
        limits: Limits,
        *,
        wanted: Collection[str] | None = None,
        allow_private: bool = False,
        ranges: Sequence[str] = EVERY,
        connect: Mapping[str, str] | None = None,
        connections: int = 100,
    ) -> None:
        self._limits, self._connect = limits, connect or {}
        self._agent, self._wanted = agent, wanted
        self._allow_private, self._ranges = allow_private, ranges
        self._connections = connections

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=self._connections,
            resolver=Connect(self._connect, allow_private=self._allow_private, ranges=self._ranges),
            socket_factory=socket_factory(allow_private=self._allow_private, ranges=self._ranges),
        )
        self._room = _Room(HELD_BYTES)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
            headers={
                "User-Agent": self._agent,
                "Accept-Encoding": "gzip, deflate",
                "Accept": "text/html, text/*;q=0.9",
            },
            timeout=aiohttp.ClientTimeout(
                total=None,  # see fetch
                sock_connect=self._limits.connect_seconds,
                sock_read=self._limits.silent_seconds,
            ),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a canonical URL. Raises FetchFailed."""
        try:
            async with (
                asyncio.timeout(self._limits.total_seconds) as limit,
                self._session.get(URL(url, encoded=True), headers=headers, allow_redirects=False) as response,
            ):
                body, whole = await self._body(response, limit)
                version = response.version
                return Answer(
                    url,
                    f"HTTP/{version.major}.{version.minor}" if version else "HTTP/1.1",
                    response.status,
                    response.reason or "",
                    tuple((_latin(key), _latin(value)) for key, value in response.raw_headers),
                    body,
                    whole,
                )
        except FetchFailed:
            raise
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            failure = _failure(error)
            raise FetchFailed(failure, _detail(failure, error, URL(url, encoded=True))) from error

    async def _body(self, response: aiohttp.ClientResponse, limit: asyncio.Timeout) -> tuple[bytes, bool]:
        """The body, or its beginning, and whether it is whole. While there is no room for it no time passes."""
        most, cut = self._limits.max_bytes, self._limits.cut
        if self._wanted is not None and _type(response) not in self._wanted:
            most, cut = min(most, UNWANTED_BYTES), True
        said = response.content_length
        if said is not None and said > most and not cut:
            raise FetchFailed(Failure.TOO_LARGE, f"{said} bytes are announced, at most {most} are read")
        need = min(most, most if said is None else said)
        async with AsyncExitStack() as held:
            parts, size = list[bytes](), 0
            async for piece in response.content.iter_chunked(_PIECE):
                if size <= _SMALL < size + len(piece):
                    left = (limit.when() or 0.0) - asyncio.get_running_loop().time()
                    limit.reschedule(None)
                    await held.enter_async_context(self._room.of(need))
                    limit.reschedule(asyncio.get_running_loop().time() + left)
                size += len(piece)
                if size > most and cut:
                    return b"".join((*parts, piece))[:most], False
                if size > most:
                    raise FetchFailed(Failure.TOO_LARGE, f"more than {most} bytes")
                parts.append(piece)
            return b"".join(parts), True


class _Room:
    """Bytes of which each holder has a part."""

    def __init__(self, nbytes: int) -> None:
        self._free = self._all = nbytes
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def of(self, nbytes: int) -> AsyncIterator[None]:
        """So many, or all, once they are free."""
        part = min(nbytes, self._all)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= part)
            self._free -= part
        try:
            yield
        finally:
            async with self._changed:
                self._free += part
                self._changed.notify_all()


def _type(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _failure(error: BaseException) -> Failure:
    causes = list(_causes(error))
    for kind, failure in (
        (PrivateAddress, Failure.PRIVATE),
        ((TimeoutError, aiohttp.ServerTimeoutError), Failure.TIME),
        ((ssl.SSLError, ssl.CertificateError, aiohttp.ClientSSLError), Failure.CERTIFICATE),
        (aiohttp.ClientConnectorDNSError, Failure.NAME),
        (aiohttp.ClientPayloadError, Failure.CUT),
        ((aiohttp.ClientResponseError, aiohttp.http.HttpProcessingError, ValueError), Failure.PROTOCOL),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return failure
    return Failure.CONNECTION


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from, and what both carry."""
    while error is not None:
        yield error
        yield from getattr(error, "exceptions", ())
        inner = getattr(error, "os_error", None)
        if isinstance(inner, BaseException):
            yield inner
            yield from getattr(inner, "exceptions", ())
        error = error.__cause__


def _detail(failure: Failure, error: BaseException, url: URL) -> str:
    """In words, by the name that was asked: where it lies may be told to nobody."""
    host, causes = f"{url.host}:{url.port}", list(_causes(error))
    if failure is Failure.PRIVATE:
        return next(str(each) for each in causes if isinstance(each, PrivateAddress))
    if failure is Failure.NAME:
        return f"no address for {url.host}"
    if failure is Failure.TIME:
        return f"{host} did not answer, or not to the end, in time"
    if failure is Failure.CONNECTION:
        if any(isinstance(each, ConnectionRefusedError) for each in causes):
            return f"connection refused by {host}"
        number = next((each.errno for each in causes if isinstance(each, OSError) and each.errno), 0)
        if number:
            return f"no connection to {host}: {os.strerror(number)}"
        if isinstance(error, aiohttp.ClientConnectorError):  # of several addresses, each with another error
            return f"no connection to {host}: none of its addresses can be reached"
        return f"{host} closed the connection"
    if failure is Failure.CERTIFICATE:
        said = next((each for each in causes if isinstance(each, ssl.SSLError)), error)
        return f"no TLS with {host}: {getattr(said, 'verify_message', '') or getattr(said, 'reason', '') or said}"[:300]
    return (str(error) or type(error).__name__)[:300]


def _latin(raw: bytes) -> str:
    return raw.decode("latin-1")
