"""Rules that are too large: their beginning counts, as it came or unpacked; and such as lie nowhere."""

import asyncio
import gzip
import random
import zlib

import pytest

from tutti.ingest.crawl.announcements import RobotsAnswer, robots_all
from tutti.ingest.crawl.asking import Manner
from tutti.ingest.crawl.fetcher_test import OK, Serve, endless, saying, server
from tutti.ingest.crawl.robots import MAX_BYTES, Access, Robots, robots

FIRST = b"User-agent: *\nDisallow: /first\n"
RULES = FIRST + b"".join(b"Disallow: /%06d/%s\n" % (number, b"x" * 80) for number in range(100_000))
EMPTY_BLOCK = b"\0\0\0\xff\xff"
NOISE = random.Random(1).randbytes(11 * MAX_BYTES)


def rules(serve: Serve) -> tuple[RobotsAnswer, Robots]:
    async def run() -> RobotsAnswer:
        async with server(serve) as url:
            manner = Manner("me@a.example", 0.0, tries=1, allow_private=True)
            (found,) = await asyncio.to_thread(robots_all, [url.removesuffix("/")], {}, manner)
            return found

    answer = asyncio.run(run())
    return answer, robots(answer.status, answer.body, "tutti")


def said(body: bytes, coding: str) -> Serve:
    head = b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (coding.encode(), len(body))
    return saying(OK + head + body)


@pytest.mark.parametrize(
    "serve",
    [
        said(RULES, "identity"),
        said(gzip.compress(RULES), "gzip"),
        said(zlib.compress(RULES), "deflate"),
        said(gzip.compress(RULES[: 9 * MAX_BYTES], 0) + NOISE, "gzip"),
        endless(OK + b"\r\n" + RULES[: 2 * MAX_BYTES], b"Disallow: /y" * 5_000),
    ],
    ids=["plain", "gzip", "deflate", "with what is none behind", "endless"],
)
def test_of_rules_that_are_too_large_the_first_count(serve: Serve) -> None:
    answer, found = rules(serve)
    assert (answer.status, found.access) == (200, Access.RULES)
    assert MAX_BYTES <= len(answer.body) <= MAX_BYTES + 1
    assert not found.allows("https://a.example/first")
    assert not found.allows("https://a.example/000000/" + "x" * 80)
    last = (MAX_BYTES - len(FIRST)) // len(b"Disallow: /000000/" + b"x" * 80 + b"\n")
    assert not found.allows(f"https://a.example/{last - 1:06}/" + "x" * 80)
    assert found.allows(f"https://a.example/{last:06}/" + "x" * 80)


def test_rules_that_end_where_the_answer_was_cut_are_no_rules_in_half() -> None:
    stream = zlib.compressobj(wbits=31)
    began = stream.compress(FIRST + b"Disallow: /") + stream.flush(zlib.Z_SYNC_FLUSH)
    answer, found = rules(said(began + EMPTY_BLOCK * (2 * MAX_BYTES) + stream.flush(), "gzip"))
    assert answer.body == FIRST
    assert not found.allows("https://a.example/first")
    assert found.allows("https://a.example/second")


def test_rules_that_cannot_be_unpacked_allow_nothing() -> None:
    for body in (b"rubbish", gzip.compress(RULES[:1000])[:-9]):
        assert rules(said(body, "gzip"))[1].access is Access.UNAVAILABLE


def test_where_no_rules_are_what_stands_in_their_place_need_not_be_unpacked() -> None:
    head = b"Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\n"
    answer, found = rules(saying(b"HTTP/1.1 404 Not Found\r\n" + head + b"rubbish"))
    assert (answer.status, found.access) == (404, Access.NONE_GIVEN)


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 399])
@pytest.mark.parametrize("place", [b"", b"Location:\r\n", b"Location: /robots.txt\r\n"])
def test_rules_that_are_redirected_nowhere_are_asked_for_once_and_are_not_there(status: int, place: bytes) -> None:
    asked = 0
    say = saying(b"HTTP/1.1 %d X\r\n%sContent-Length: 0\r\n\r\n" % (status, place))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await say(reader, writer)

    answer, found = rules(serve)
    assert (asked, answer.status, found.access) == (1, status, Access.NONE_GIVEN)
