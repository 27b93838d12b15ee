"""What pages and sitemaps say of others, in whatever state they are; and which of that is followed."""

import gzip
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.crawl.links import MAX_LINKS, MAX_OWN, PageLinks, said
from tutti.ingest.crawl.scope import ExclusionReason, PageCounts, Scope, circles, level, shape
from tutti.ingest.crawl.sitemaps import MAX_BYTES, MAX_URLS, BadSitemap, sitemap
from tutti.ingest.crawl.urls import host_of

URL = "https://a.example/one/two"


def page(head: str = "", body: str = "", headers: Iterable[str] = ()) -> PageLinks:
    html = f"<!doctype html><head>{head}</head><body>{body}</body>"
    return said(URL, html.encode(), agent="Tutti", headers=headers)


def test_links_are_canonical_sorted_and_each_once() -> None:
    found = page(
        body="<a href='z#1'>z</a><a href='/a'>a</a><area href='z'><iframe src='//b.example/f'></iframe><a>none</a>"
    )
    assert found.links == ("https://a.example/a", "https://a.example/one/z", "https://b.example/f")
    assert (found.canonical, found.index, found.faults) == ("", True, {})


def test_what_is_no_page_is_counted_by_its_fault() -> None:
    links = ("javascript:x()", "JAVASCRIPT:y()", "mailto:a@b.example", "https://u:p@a.example/", "http://[/")
    found = page(body="".join(f"<a href='{each}'>x</a>" for each in links))
    assert (found.links, found.faults) == ((), {"scheme": 3, "user": 1, "host": 1})


def test_the_base_of_a_page_is_heeded_unless_it_is_none() -> None:
    assert page("<base href='/b/'>", "<a href=c>").links == ("https://a.example/b/c",)
    assert page("<base href='javascript:'>", "<a href=c>").links == ("https://a.example/one/c",)


def test_a_page_names_itself_once_or_not_at_all() -> None:
    assert page("<link rel='Canonical x' href='/own#a'>").canonical == "https://a.example/own"
    assert page("<link rel=canonical href=a><link rel=canonical href=b>").canonical == ""
    assert page("<link rel=canonical href='data:x'>").canonical == ""


@pytest.mark.parametrize(
    ("head", "headers", "index", "follow"),
    [
        ("<meta name=robots content='noindex'>", [], False, True),
        ("<meta name=ROBOTS content='NoFollow , x'>", [], True, False),
        ("<meta name=robots content='max-image-preview:large, noindex, follow'>", [], False, True),
        ("<meta name=robots content='another: x, noindex'>", [], False, True),
        ("<meta name=robots content=all><meta name=robots content=nofollow>", [], True, False),
        ("<meta name=tutti content='max-snippet:20, none'>", [], False, False),
        ("<meta name=another content=none>", [], True, True),
        ("<meta name=robots content='noindex nofollow'>", [], False, False),
        ("<meta name=robots content=' follow\n NoIndex,,archive'>", [], False, True),
        ("<meta name=robots content='max-image-preview: none max-snippet : -1 nofollow'>", [], True, False),
        ("<meta name=robots content='max-image-preview:none'>", [], True, True),
        ("<meta name=robots content='noindexing no follow'>", [], True, True),
        ("", ["noindex nofollow"], False, False),
        ("", ["tutti: noindex max-image-preview: none"], False, True),
        ("", ["max-image-preview: none"], True, True),
        ("", ["noindex, nofollow"], False, False),
        ("", ["max-image-preview:large, noindex, follow"], False, True),
        ("", ["Max-Snippet: 20, none"], False, False),
        ("", ["max-video-preview:-1, nofollow"], True, False),
        ("", ["unavailable_after: 25 Jun 2010 15:00:00 PST"], True, True),
        ("", ["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"], False, True),
        ("", ["unavailable_after: Friday, 25-Jun-10 15:00:00 PST, noindex"], False, True),
        ("", ["another: none"], True, True),
        ("", ["another: max-snippet:20, none"], True, True),
        ("", ["Tutti: noindex"], False, True),
        ("", ["tutti: max-snippet:20, noindex"], False, True),
        ("", ["noindex, another: nofollow"], False, True),
        ("", ["another: noindex, tutti: nofollow"], True, False),
        ("", ["another: noindex", "noindex"], False, True),
        ("", ["nofollow", "another: noindex"], True, False),
        ("<meta name=robots content=noindex>", ["nofollow"], False, False),
    ],
)
def test_what_a_page_asks_for_is_done(head: str, headers: list[str], index: bool, follow: bool) -> None:
    found = page(head, "<a href=x>x</a><a href=y rel='ugc nofollow'>y</a>", headers=headers)
    assert (found.index, found.links) == (index, ("https://a.example/one/x",) if follow else ())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\1\2",
        b"plain <a href=x>",
        b"%PDF-1.7",
        b"<html>" + b"<div>" * 200_000,
        b"<html><a href=",
        b"<html>\xff\xfe",
    ],
)
def test_a_page_in_any_state_gives_what_it_can(body: bytes) -> None:
    assert said(URL, body, agent="tutti").links == ()


def test_a_page_with_more_links_than_anybody_reads_is_cut() -> None:
    body = b"<html>" + b"".join(b"<a href=%d>x</a>" % number for number in range(MAX_LINKS + 5))
    assert len(said(URL, body, agent="tutti").links) == MAX_LINKS


def test_of_what_a_page_wants_to_be_known_under_the_first_count() -> None:
    same = "".join(f"<link rel=canonical href='/own#{number}'>" for number in range(MAX_OWN))
    other = "<link rel=canonical href='/other'>"
    assert page(same + other).canonical == "https://a.example/own"
    assert page(same[: same.rindex("<link")] + other).canonical == ""
    assert page(other + same).canonical == ""


def test_a_sitemap_lists_pages_of_its_own_host() -> None:
    body = b"""<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
      <url><loc> https://a.example/x </loc><lastmod>2026-01-01</lastmod></url><url><loc>https://a.example/x</loc></url>
      <url><loc>https://b.example/y</loc></url><url><loc>javascript:x</loc></url><url/></urlset>"""
    for data in (body, gzip.compress(body), b"https://a.example/x\nhttps://b.example/y\n\n"):
        assert sitemap(URL, data).pages == ("https://a.example/x",)
    nested = (
        b"<urlset><url><image><loc>/i</loc></image><loc>https://a.example/<!-- -->x</loc><loc>/y</loc></url></urlset>"
    )
    assert sitemap(URL, nested).pages == ("https://a.example/x",)
    index = b"<sitemapindex><sitemap><loc>https://a.example/m.xml</loc></sitemap></sitemapindex>"
    assert (sitemap(URL, index).pages, sitemap(URL, index).sitemaps) == ((), ("https://a.example/m.xml",))


def test_a_sitemap_in_any_state_gives_what_it_can_or_is_refused() -> None:
    one = b"<urlset><url><loc>https://a.example/x</loc></url>"
    assert sitemap(URL, one + b"<url><loc>https://a.ex").pages == ("https://a.example/x",)
    entities = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + one
    deep, long = b"<a>" * 99 + one, b"<a b='" + b"c" * (2 << 20) + b"'/>" + one
    wide = entities.decode().encode("utf-16-le")
    assert sitemap(URL, one + entities).pages == ("https://a.example/x",)
    for body in (entities, b" " * 65_530 + entities, wide, deep, long, b"<html><p>not <found", b"\x1f\x8brubbish"):
        with pytest.raises(BadSitemap):
            sitemap(URL, body)
    many = b"".join(b"<url><loc>https://a.example/%d</loc></url>" % number for number in range(MAX_URLS + 9))
    assert len(sitemap(URL, b"<urlset>" + many + b"</urlset>").pages) == MAX_URLS
    assert sitemap(URL, gzip.compress(b"\n" * (200 << 20), 1)).pages == ()


def test_a_sitemap_may_be_packed_in_members() -> None:
    lines = [f"https://a.example/{number}\n" for number in range(3)]
    members = [gzip.compress(line.encode()) for line in lines]
    pages = tuple(map(str.strip, lines))
    assert sitemap(URL, b"".join(members)).pages == pages
    assert sitemap(URL, b"".join(members) + b"\n").pages == pages
    assert sitemap(URL, b"".join(members)[:-9]).pages[:2] == pages[:2]
    xml = b"<urlset>%s</urlset>" % b"".join(b"<url><loc>%s</loc></url>" % line.encode() for line in lines)
    assert sitemap(URL, b"".join(gzip.compress(xml[at : at + 7]) for at in range(0, len(xml), 7))).pages == pages
    large = gzip.compress(b"\n" * MAX_BYTES, 1)
    assert sitemap(URL, large + members[0]).pages == ()
    assert sitemap(URL, members[0] + large).pages == pages[:1]


MUCH = b"> " * (1 << 20)


@pytest.mark.parametrize("piece", [b"<!--%s-->", b"<a b='%s'/>", b"<?a %s?>"])
def test_of_a_sitemap_no_piece_is_read_again_and_again(piece: bytes) -> None:
    one, long = b"<url><loc>https://a.example/x</loc></url>", piece % MUCH
    with pytest.raises(BadSitemap, match="more than a MiB"):
        sitemap(URL, b"<urlset><a>" + long + one)
    assert sitemap(URL, b"<urlset>" + one + long + one.replace(b"/x", b"/y")).pages == ("https://a.example/x",)


@pytest.mark.parametrize("piece", [b"%s", b"<![CDATA[%s]]>", b"<lastmod>%s</lastmod>", b"<a></a>%s<!-- -->"])
def test_of_what_is_read_as_it_comes_a_sitemap_may_have_any_amount(piece: bytes) -> None:
    body = b"<urlset>" + piece % MUCH + b"<url><loc>https://a.example/x</loc></url></urlset>"
    for data in (body, body.decode().encode("utf-16-le"), gzip.compress(body, 1)):
        assert sitemap(URL, data).pages == ("https://a.example/x",)


A = "https://a.example"


def decided(urls: list[str], scope: Scope, depth: int = 0) -> dict[str, ExclusionReason | None]:
    return dict(level(urls, depth, scope, PageCounts(), PageCounts()))


def test_what_lies_elsewhere_or_too_deep_is_left_with_its_reason() -> None:
    scope = Scope((f"{A}/docs/",), without=(f"{A}/docs/old/",), depth=2)
    assert decided([f"{A}/docs/a", f"{A}/docs/old/b", f"{A}/c", "https://a.example.evil/docs/"], scope) == {
        f"{A}/docs/a": None,
        f"{A}/docs/old/b": ExclusionReason.EXCLUDED,
        f"{A}/c": ExclusionReason.ELSEWHERE,
        "https://a.example.evil/docs/": ExclusionReason.ELSEWHERE,
    }
    assert decided([f"{A}/docs/a"], scope, 3) == {f"{A}/docs/a": ExclusionReason.TOO_DEEP}


def test_a_calendar_of_a_million_pages_is_cut_and_the_rest_of_the_host_is_not() -> None:
    days = [f"{A}/calendar/{year}/{month}?view=day&n={year}" for year in range(1000, 9000) for month in range(1, 13)]
    found = decided([*days, f"{A}/about"], Scope((f"{A}/",), alike=100))
    assert sum(left is None for left in found.values()) == 101
    assert {left for left in found.values() if left} == {ExclusionReason.TRAP}
    assert shape(days[0]) == f"{A}/calendar/0/0?n&view"


@pytest.mark.parametrize(
    "path", ["/a/a/a/a", "/a/b/a/b/a/b", "/x/a/a/a", "/" + "/".join(map(str, range(30))), "/?" + "a=1&" * 20]
)
def test_paths_that_go_in_circles_are_traps(path: str) -> None:
    assert circles(A + path, segments=20, parameters=10)


@pytest.mark.parametrize("path", ["/", "/a/a/b", "/a/b/a/b", "/2026/11/11/11-things", "/a?b=1&c=2"])
def test_paths_that_do_not_are_none(path: str) -> None:
    assert not circles(A + path, segments=20, parameters=10)


@given(
    urls=st.lists(st.sampled_from([f"{A}/{number}/{letter}" for number in range(9) for letter in "ab"]), max_size=30)
)
def test_limits_cut_the_same_pages_in_whatever_order_they_were_found(urls: list[str]) -> None:
    scope = Scope((A,), pages=5, pages_of_host=4, alike=3)
    found = decided(urls, scope)
    assert found == decided(sorted(urls, reverse=True), scope)
    assert sum(left is None for left in found.values()) <= 4


@pytest.mark.parametrize("together", [1, 3, 1000])
def test_a_level_that_is_decided_in_parts_is_decided_as_a_whole(together: int) -> None:
    urls = sorted(f"http://{host}.example/{kind}/{each}" for host in "ab" for kind in "xyz" for each in range(5))
    scope = Scope(("http://",), pages=17, pages_of_host=11, alike=4)
    whole = dict(level(urls, 1, scope, PageCounts(), PageCounts()))
    taken, parts = PageCounts(), dict[str, ExclusionReason | None]()
    for begin in range(0, len(urls), together):
        more = PageCounts()
        parts |= dict(level(urls[begin : begin + together], 1, scope, taken, more))
        assert more.pages <= together
        taken.grow(more)
    assert parts == whole
    assert {ExclusionReason.LIMIT, ExclusionReason.TRAP, None} == set(whole.values())
    stay = [url for url, left in whole.items() if left is None]
    assert taken.pages == len(stay)
    for url in stay:
        assert taken.of_host(url) == sum(host_of(each) == host_of(url) for each in stay)
        assert taken.alike(url) == sum(shape(each) == shape(url) for each in stay)
