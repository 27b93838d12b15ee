"""Fetching from servers that are slow, endless, lying, broken or inside: each has its reason and its price."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tutti.ingest.crawl.fetcher import UNWANTED_BYTES, Fetcher
from tutti.ingest.crawl.fetching import HELD_BYTES, Answer, Limits, decoded
from tutti.ingest.crawl.resolver_test import knowing
from tutti.ingest.failures import Failure, FetchFailed
from tutti.ingest.reading.encodings import MAX_MEMBERS

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
QUICK = Limits(connect_seconds=2, silent_seconds=0.3, total_seconds=0.6, max_bytes=100_000)
OK = b"HTTP/1.1 200 OK\r\n"


def saying(data: bytes, *, hang: bool = False) -> Serve:
    """Reads a request, says this, and closes, or stays silent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        if hang:
            await reader.read()
        writer.close()

    return serve


def endless(head: bytes, piece: bytes, pause: float = 0) -> Serve:
    """Says a head, then a piece again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head)
        try:
            while True:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
        except ConnectionError:
            writer.close()

    return serve


@asynccontextmanager
async def server(serve: Serve) -> Any:
    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/"
    finally:
        running.close()


def fetched(serve: Serve, limits: Limits = QUICK, *, scheme: str = "http", **options: Any) -> Answer:
    async def run() -> Answer:
        async with server(serve) as url, Fetcher("tutti-test", limits, **{"allow_private": True, **options}) as fetcher:
            return await fetcher.fetch(url.replace("http", scheme, 1))

    return asyncio.run(run())


def failed(serve: Serve, limits: Limits = QUICK, **options: Any) -> Failure:
    with pytest.raises(FetchFailed) as error:
        decoded(fetched(serve, limits, **options), limits.max_bytes)
    return error.value.failure


def test_an_answer_is_as_it_was_said() -> None:
    answer = fetched(saying(b"HTTP/1.1 404 Not here\r\nX-One: a\r\nx-one: caf\xe9\r\nContent-Length: 4\r\n\r\nbody"))
    assert (answer.status, answer.reason, answer.body, answer.version) == (404, "Not here", b"body", "HTTP/1.1")
    assert answer.headers == (("X-One", "a"), ("x-one", "caf\u00e9"), ("Content-Length", "4"))
    assert (answer.header("X-ONE"), answer.header("none")) == ("a", "")


def test_who_asks_says_so_and_sends_nothing_else() -> None:
    heard = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(OK + b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async def run() -> None:
        async with (
            server(serve) as url,
            Fetcher("tutti-test (+https://a.example)", QUICK, allow_private=True) as fetcher,
        ):
            await fetcher.fetch(url + "a%2Fb?q=%20", {"If-None-Match": '"x"'})
            await fetcher.fetch(url)

    asyncio.run(run())
    assert heard[0].startswith("GET /a%2Fb?q=%20 HTTP/1.1\r\n")
    assert "User-Agent: tutti-test (+https://a.example)" in heard[0]
    assert 'If-None-Match: "x"' in heard[0]
    assert not any("ookie" in each for each in heard)


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    answer = fetched(saying(b"HTTP/1.1 302 Found\r\nLocation: http://b.example/\r\nContent-Length: 0\r\n\r\n"))
    assert (answer.status, answer.header("location")) == (302, "http://b.example/")


def test_chunks_are_joined() -> None:
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert fetched(saying(chunked)).body == b"abcde"


@pytest.mark.parametrize("length", [b"", b"Content-Length: 10737418240\r\n"])
def test_of_a_body_that_is_not_wanted_the_beginning_is_taken(length: bytes) -> None:
    picture = endless(OK + b"Content-Type: image/png\r\n" + length + b"\r\n", b"a" * 65_535)
    answer = fetched(picture, wanted=("text/html", ""))
    assert (len(answer.body), answer.whole) == (UNWANTED_BYTES, False)
    small = OK + b"Content-Type: image/png\r\nContent-Length: 3\r\n\r\nabc"
    assert (fetched(saying(small), wanted=("text/html", "")).body, fetched(saying(small)).whole) == (b"abc", True)
    page = endless(OK + b"Content-Type: Text/HTML; charset=x\r\n\r\n", b"a" * 65_536)
    assert failed(page, wanted=("text/html", "")) is Failure.TOO_LARGE


def test_large_bodies_wait_for_room_in_which_no_time_passes_for_them() -> None:
    large = 3 * HELD_BYTES // 4
    held = asyncio.Event()
    most = under_way = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, under_way
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % large + bytes(large // 2))
        await writer.drain()
        under_way += 1
        most = max(most, under_way)
        await held.wait()
        writer.write(bytes(large // 2))
        await writer.drain()
        under_way -= 1
        writer.close()

    async def run() -> list[int]:
        limits = Limits(connect_seconds=5, silent_seconds=5, total_seconds=5, max_bytes=large)
        async with server(serve) as url, Fetcher("t", limits, allow_private=True) as fetcher:
            questions = [asyncio.create_task(fetcher.fetch(url)) for _ in range(3)]
            while not under_way:
                await asyncio.sleep(0.01)
            held.set()
            return [len((await each).body) for each in questions]

    assert asyncio.run(run()) == [large] * 3
    assert most == 1


@pytest.mark.parametrize(
    ("serve", "failure"),
    [
        (saying(b"", hang=True), Failure.TIME),
        (saying(OK + b"Content-Length: 9\r\n\r\nabc", hang=True), Failure.TIME),
        (endless(OK + b"Content-Length: 9999\r\n\r\n", b"a", 0.1), Failure.TIME),
        (endless(OK, b"X-A: b\r\n", 0.1), Failure.TIME),
        (saying(OK + b"Content-Length: 10737418240\r\n\r\n", hang=True), Failure.TOO_LARGE),
        (endless(OK + b"\r\n", b"a" * 65536), Failure.TOO_LARGE),
        (endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"a" * 65536 + b"\r\n"), Failure.TOO_LARGE),
        (saying(OK + b"Content-Length: 9\r\n\r\nabc"), Failure.CUT),
        (saying(OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nabc"), Failure.CUT),
        (saying(OK + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde"), Failure.ENCODING),
        (saying(OK + b"Content-Encoding: br\r\nContent-Length: 5\r\n\r\nabcde"), Failure.ENCODING),
        (saying(b"220 ftp ready\r\n"), Failure.PROTOCOL),
        (saying(OK + b"Content-Length: minus\r\n\r\n"), Failure.PROTOCOL),
        (saying(OK + b"X-Large: " + b"a" * 100_000 + b"\r\n\r\n"), Failure.PROTOCOL),
        (saying(b""), Failure.CONNECTION),
    ],
    ids=lambda value: value.value if isinstance(value, Failure) else "",
)
def test_what_goes_wrong_has_a_reason(serve: Serve, failure: Failure) -> None:
    assert failed(serve) is failure


def test_where_nobody_listens_and_where_nobody_speaks_tls() -> None:
    async def run(url: str) -> None:
        async with Fetcher("t", QUICK, allow_private=True) as fetcher:
            await fetcher.fetch(url)

    for url, failure in (
        ("http://127.0.0.1:1/", Failure.CONNECTION),
        ("http://name-that-is-nowhere.invalid/", Failure.NAME),
    ):
        with pytest.raises(FetchFailed) as error:
            asyncio.run(run(url))
        assert error.value.failure is failure

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    assert failed(plain, scheme="https") is Failure.CERTIFICATE


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"])  # noqa: S104
def test_addresses_inside_are_refused_when_the_socket_is_made(host: str) -> None:
    async def run() -> None:
        async with server(saying(OK + b"Content-Length: 0\r\n\r\n")) as url, Fetcher("t", QUICK) as fetcher:
            await fetcher.fetch(url.replace("127.0.0.1", host))

    with pytest.raises(FetchFailed) as error:
        asyncio.run(run())
    assert error.value.failure is Failure.PRIVATE


def unreached(url: str, **options: Any) -> FetchFailed:
    async def run() -> None:
        async with Fetcher("t", QUICK, **options) as fetcher:
            await fetcher.fetch(url)

    with pytest.raises(FetchFailed) as error:
        asyncio.run(run())
    return error.value


@pytest.mark.parametrize(
    "addresses", [("::1", "127.0.0.1"), ("127.0.0.1", "::1"), ("10.0.0.1", "127.0.0.1", "fc00::1")]
)
def test_a_name_whose_addresses_are_all_inside_is_refused_as_private(
    addresses: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", knowing(*addresses))
    assert unreached("http://several.example:1/").failure is Failure.PRIVATE


def test_addresses_that_fail_for_different_reasons_are_no_closed_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody_listens, needs_a_permission = "::1", "255.255.255.255"
    monkeypatch.setattr(socket, "getaddrinfo", knowing(nobody_listens, needs_a_permission))
    error = unreached("http://several.example:1/", allow_private=True)
    assert (error.failure, "closed" in error.detail) == (Failure.CONNECTION, False)


def test_a_name_is_reached_by_any_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> int:
        async with (
            server(saying(OK + b"Content-Length: 0\r\n\r\n")) as url,
            Fetcher("t", QUICK, allow_private=True) as fetcher,
        ):
            monkeypatch.setattr(socket, "getaddrinfo", knowing("127.0.0.2", "::1", "127.0.0.1"))
            return (await fetcher.fetch(url.replace("127.0.0.1", "several.example"))).status

    assert asyncio.run(run()) == 200


@pytest.mark.parametrize("name", ["site.example", "site.example:{port}"])
@pytest.mark.parametrize("other", ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"])
def test_where_one_host_is_said_to_lie_no_other_is_asked(name: str, other: str) -> None:
    async def run() -> tuple[int, Failure]:
        async with server(saying(OK + b"Content-Length: 0\r\n\r\n")) as url:
            place = url.removeprefix("http://").rstrip("/")
            connect = {name.format(port=place.rpartition(":")[2]): place}
            async with Fetcher("t", QUICK, connect=connect) as fetcher:
                answer = await fetcher.fetch(url.replace("127.0.0.1", "site.example"))
                with pytest.raises(FetchFailed) as error:
                    await fetcher.fetch(url.replace("127.0.0.1", other))
                return answer.status, error.value.failure

    assert asyncio.run(run()) == (200, Failure.PRIVATE)


@pytest.mark.parametrize("allowed", [True, False])
def test_no_private_address_is_asked_out_of_bounds(*, allowed: bool) -> None:
    async def run() -> None:
        async with server(saying(OK + b"Content-Length: 0\r\n\r\n")) as url:
            connect = {} if allowed else {"site.example": url.removeprefix("http://").rstrip("/")}
            for ranges, reached in ((("10.0.0.0/8", "fc00::/7"), False), ((), False), (("127.0.0.0/8",), True)):
                async with Fetcher("t", QUICK, allow_private=allowed, connect=connect, ranges=ranges) as fetcher:
                    for host in ("127.0.0.1", "localhost") if allowed else ("site.example",):
                        named = url.replace("127.0.0.1", host)
                        if reached:
                            assert (await fetcher.fetch(named)).status == 200
                            continue
                        with pytest.raises(FetchFailed) as error:
                            await fetcher.fetch(named)
                        assert error.value.failure is Failure.PRIVATE
                        assert "ingest.private_ranges" in error.value.detail

    asyncio.run(run())


def answered(coding: str, body: bytes) -> Answer:
    return Answer("http://a.example/", "HTTP/1.1", 200, "OK", (("Content-Encoding", coding),), body)


def test_encodings_are_undone_up_to_a_limit() -> None:
    text = b"some words " * 5_000
    bare = zlib.compressobj(wbits=-15)
    for coding, body in (
        ("gzip", gzip.compress(text)),
        ("X-GZIP", gzip.compress(text[:9]) + gzip.compress(text[9:])),
        ("deflate", zlib.compress(text)),
        ("deflate", bare.compress(text) + bare.flush()),
        ("gzip, gzip", gzip.compress(gzip.compress(text))),
        ("identity", text),
        ("", text),
    ):
        assert decoded(answered(coding, body), len(text)) == text
    bomb = gzip.compress(gzip.compress(b"\0" * (200 << 20), 1), 1)
    for coding, body, failure in (
        ("gzip", gzip.compress(text), Failure.TOO_LARGE),
        ("gzip, gzip", bomb, Failure.TOO_LARGE),
        ("gzip", gzip.compress(text)[:-9], Failure.CUT),
        ("gzip", b"rubbish", Failure.ENCODING),
        ("zstd", b"", Failure.ENCODING),
    ):
        with pytest.raises(FetchFailed) as error:
            decoded(answered(coding, body), len(text) - 1)
        assert error.value.failure is failure


def test_what_has_no_end_mark_behind_it_is_whole() -> None:
    for size in range((1 << 20) - 300, (1 << 20) + 300, 7):
        bare = zlib.compressobj(wbits=-15)
        body = bare.compress(bytes(size)) + bare.flush()
        assert len(decoded(answered("deflate", body), 2 << 20)) == size


@pytest.mark.parametrize("behind", [b"\0", b"\0" * 600, b"\n", b"</html>\n", b"\x1f\x8c", b"\x1f\x8b\0junk"])
def test_what_lies_behind_a_body_and_is_none_is_ignored(behind: bytes) -> None:
    bare = zlib.compressobj(wbits=-15)
    for coding, body in (
        ("gzip", gzip.compress(b"some words")),
        ("x-gzip", gzip.compress(b"some ") + gzip.compress(b"words")),
        ("deflate", zlib.compress(b"some words")),
        ("deflate", bare.compress(b"some words") + bare.flush()),
        ("gzip, gzip", gzip.compress(gzip.compress(b"some words") + behind)),
    ):
        assert decoded(answered(coding, body + behind), 1_000) == b"some words"
    with pytest.raises(FetchFailed) as error:
        decoded(answered("gzip", behind + gzip.compress(b"some words")), 1_000)
    assert error.value.failure is Failure.ENCODING


def test_a_body_of_members_that_is_cut_is_not_whole_wherever_it_is_cut() -> None:
    first, second = gzip.compress(b"some "), gzip.compress(b"words")
    for size in range(1, len(second)):
        with pytest.raises(FetchFailed) as error:
            decoded(answered("gzip", first + second[:size]), 10)
        assert error.value.failure is Failure.CUT


def test_many_members_are_walked_once_and_too_many_are_none() -> None:
    empty, large = gzip.compress(b"", mtime=0), 64 << 20
    behind = gzip.compress(bytes(large), 0)
    # Minutes where what lies behind a member is copied for each.
    assert len(decoded(answered("gzip", empty * (MAX_MEMBERS - 1) + behind), large)) == large
    many = answered("gzip", empty * (MAX_MEMBERS + 1))
    assert decoded(many, large, cut=True) == b""
    with pytest.raises(FetchFailed, match="members") as error:
        decoded(many, large)
    assert error.value.failure is Failure.ENCODING
