"""Rules of a host, after RFC 9309: the cases that it decides, and hostile ones."""

import pytest

from tutti.ingest.crawl.robots import MAX_BYTES, Access, robots

AGENT = "tutti"
RULES = b"""\
User-agent: *
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Crawl-delay: 2
Sitemap: https://a.example/map.xml
Sitemap: https://a.example/map.xml

User-agent: Tutti
Disallow: /ours
"""


def test_the_group_of_an_agent_wins_over_that_of_all() -> None:
    ours, theirs = robots(200, RULES, AGENT), robots(200, RULES, "another")
    assert (ours.allows("https://a.example/ours"), ours.allows("https://a.example/private")) == (False, True)
    assert (theirs.allows("https://a.example/ours"), theirs.allows("https://a.example/private")) == (True, False)


def test_the_longest_rule_wins_and_wildcards_are_known() -> None:
    rules = robots(200, RULES, "another")
    assert rules.allows("https://a.example/private/open/page")
    assert not rules.allows("https://a.example/a.pdf")
    assert rules.allows("https://a.example/a.pdf?x=1")
    assert (rules.delay_seconds, rules.sitemaps) == (2.0, ["https://a.example/map.xml"])


@pytest.mark.parametrize(
    ("status", "access", "allowed"),
    [
        (200, Access.RULES, True),
        (204, Access.RULES, True),
        (301, Access.NONE_GIVEN, True),
        (401, Access.NONE_GIVEN, True),
        (404, Access.NONE_GIVEN, True),
        (410, Access.NONE_GIVEN, True),
        (429, Access.UNAVAILABLE, False),
        (500, Access.UNAVAILABLE, False),
        (503, Access.UNAVAILABLE, False),
        (None, Access.UNAVAILABLE, False),
    ],
)
def test_what_an_answer_without_rules_means(status: int | None, access: Access, allowed: bool) -> None:
    found = robots(status, b"", AGENT)
    assert (found.access, found.allows("https://a.example/")) == (access, allowed)


def test_a_huge_file_is_read_up_to_the_limit_and_no_rule_in_half() -> None:
    line = b"Disallow: /x" + b"y" * 87 + b"\n"
    body = b"User-agent: *\nDisallow: /first\n" + line * 100_000 + b"Disallow: /last\n"
    assert len(body) > 9 << 20
    rules = robots(200, body, AGENT)
    assert not rules.allows("https://a.example/first")
    assert rules.allows("https://a.example/last")
    assert rules.allows("https://a.example/xy")
    assert robots(200, b"User-agent: *" + b" " * MAX_BYTES, AGENT).allows("https://a.example/")


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16"])
def test_a_mark_of_the_encoding_is_heeded(charset: str) -> None:
    assert not robots(200, "User-agent: *\nDisallow: /x".encode(charset), AGENT).allows("https://a.example/x")


@pytest.mark.parametrize("body", [b"\0" * 1000, b"\xff\xfe\x00", b"<html>not found</html>", bytes(range(256)) * 9])
def test_rubbish_allows_everything(body: bytes) -> None:
    assert robots(200, body, AGENT).allows("https://a.example/")


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_rule_that_the_limit_cuts_is_no_rule(charset: str, end: str) -> None:
    body = f"User-agent: *{end}Disallow: /first{end}Disallow: /{'x' * MAX_BYTES}".encode(charset)
    rules = robots(200, body, AGENT)
    assert not rules.allows("https://a.example/first")
    assert rules.allows("https://a.example/x")
    assert rules.allows("https://a.example/" + "x" * (MAX_BYTES // 2))
