"""Fetching: one request, one answer, within limits.

Promises: no answer takes more memory or time than its limits, whatever the server does; what went wrong has a reason.
Redirects are answers like any other; whoever asked decides whether to follow. Nothing is kept between two requests but
connections: no cookies, no credentials, no proxy of the environment.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from yarl import URL

from tutti.ingest.crawl.addresses import Connect, PrivateAddress, address_of, socket_factory

_PIECE = 64 << 10
_MAX_HEADER = 32 << 10
_FIRST_STEP = 512
HELD_BYTES = 32 << 20
"""Of all bodies that come at once; one that is larger comes alone."""
_SMALL = 256 << 10
"""Bytes of a body that need no room."""
UNWANTED_BYTES = 64 << 10
"""That are read of a body of a type that is not wanted: to have few of those whole is cheaper than to connect again."""
MAX_MEMBERS = 10_000
"""Of gzip in one body: those who write blocks have one for 64 KiB or more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes are of the body as it came, and once it is decoded. `cut`: of a larger one the beginning is taken."""

    connect_seconds: float = 10.0
    silent_seconds: float = 20.0
    total_seconds: float = 60.0
    max_bytes: int = 10 << 20
    cut: bool = False


class Failure(StrEnum):
    """Why there is no answer, or none that can be used."""

    NAME = "name"  # the host has no address
    PRIVATE = "private_address"  # it has none of the public web
    CONNECTION = "connection"  # refused, reset, unreachable
    CERTIFICATE = "certificate"  # TLS did not come about
    TIME = "time"  # not whole within the limits of time
    TOO_LARGE = "too_large"  # as it came, or once decoded
    PROTOCOL = "protocol"  # what came is no HTTP
    CUT = "cut"  # it ended before it was whole
    ENCODING = "encoding"  # a content encoding that is unknown or wrong
    BUSY = "busy"  # its host asks to be left alone for longer, or more often, than is waited
    UNEXPECTED = "unexpected"  # a defect of this program that the page brought to light


class FetchFailed(Exception):
    """No answer; `failure` says why, `detail` what was seen."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(f"{failure.value}: {detail}")
        self.failure, self.detail = failure, detail


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. `body` is as it came but for chunks, `whole` unless only its beginning was taken; `headers`
    in their order, as they were written.
    """

    url: str
    version: str
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    whole: bool = True

    def header(self, name: str) -> str:
        """The first header of this name, in any case; empty when there is none."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    def text(self, name: str) -> str:
        """The same, as UTF-8 where its bytes are."""
        value = self.header(name)
        try:
            return value.encode("latin-1").decode()
        except UnicodeError:
            return value


class Fetches(Protocol):
    """What asks for pages."""

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a canonical URL. Raises FetchFailed."""
        ...


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
        connect: Mapping[str, str] | None = None,
        connections: int = 100,
    ) -> None:
        self._limits, self._connect = limits, connect or {}
        self._agent, self._wanted = agent, wanted
        self._allow_private = allow_private
        self._connections = connections

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            limit=self._connections,
            resolver=Connect(self._connect),
            socket_factory=socket_factory(
                allow_private=self._allow_private, named=set(map(address_of, self._connect.values()))
            ),
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


def decoded(answer: Answer, max_bytes: int, *, cut: bool = False) -> bytes:
    """The body without its content encodings. Raises FetchFailed when one is unknown, wrong or makes it too large.

    `cut`: of what is too large, or was taken in part, as much as there is, at most `max_bytes`.
    """
    body = answer.body
    codings = [each.strip().lower() for each in answer.header("Content-Encoding").split(",") if each.strip()]
    for coding in reversed(codings):
        if coding == "identity":
            continue
        if coding not in ("gzip", "x-gzip", "deflate"):
            raise FetchFailed(Failure.ENCODING, f"{coding[:40]!r} was not asked for")
        try:
            body = _inflated(body, coding, max_bytes, cut, cut and not answer.whole)
        except zlib.error as error:
            raise FetchFailed(Failure.ENCODING, f"{coding}: {error}") from error
    return body[:max_bytes] if cut else body


def _inflated(body: bytes, coding: str, max_bytes: int, cut: bool, part: bool) -> bytes:
    """`cut`: what is too large is cut; `part`: it may end anywhere.

    Raises zlib.error, FetchFailed. What says deflate may come without the frame of zlib.
    """
    bare = coding == "deflate" and not (len(body) > 1 and body[0] & 0x0F == 8 and int.from_bytes(body[:2]) % 31 == 0)
    parts, size, at, members = list[bytes](), 0, 0, 0
    while at < len(body):
        members += 1
        if members > MAX_MEMBERS:
            if cut:
                break
            raise FetchFailed(Failure.ENCODING, f"{coding} of more than {MAX_MEMBERS:,} members")
        member = _Member(bare)
        for piece in member.pieces(memoryview(body)[at:], max_bytes + 1 - size):
            parts.append(piece)
            size += len(piece)
        at += member.read
        if size > max_bytes and not cut:
            raise FetchFailed(Failure.TOO_LARGE, f"more than {max_bytes} bytes once decoded")
        if size > max_bytes or (part and not member.whole):
            break
        if not member.whole:
            raise FetchFailed(Failure.CUT, f"{coding} ends too early")
    return b"".join(parts)


class _Member:
    """One of the streams, one behind the other, that compressed bytes are. It is fed in steps that grow: what zlib does
    not use of a step it copies.
    """

    def __init__(self, bare: bool) -> None:
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
        self.read = 0
        """Bytes that were used."""

    @property
    def whole(self) -> bool:
        return self._stream.eof

    def pieces(self, data: memoryview, most: int) -> Iterator[bytes]:
        """What the beginning of these bytes stands for, until the member ends or there is more. Raises zlib.error."""
        step = _FIRST_STEP
        while most > 0 and not self.whole:
            given = data[self.read : self.read + step]
            piece = self._stream.decompress(given, min(most, 1 << 20))
            if not given and not piece:
                return
            self.read += len(given) - len(self._stream.unconsumed_tail) - len(self._stream.unused_data)
            step, most = min(2 * step, _PIECE), most - len(piece)
            yield piece


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
        return f"no connection to {host}: {os.strerror(number)}" if number else f"{host} closed the connection"
    if failure is Failure.CERTIFICATE:
        said = next((each for each in causes if isinstance(each, ssl.SSLError)), error)
        return f"no TLS with {host}: {getattr(said, 'verify_message', '') or getattr(said, 'reason', '') or said}"[:300]
    return (str(error) or type(error).__name__)[:300]


def _latin(raw: bytes) -> str:
    return raw.decode("latin-1")
