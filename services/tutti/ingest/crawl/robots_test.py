"""Rules of a host, after RFC 9309: the cases that it decides, and hostile ones."""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.crawl.robots import LONGEST_DELAY_SECONDS, MAX_BYTES, Access, Parsed, robots

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
    assert (rules.delay_seconds, rules.sitemaps) == (2.0, ("https://a.example/map.xml",))


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a$", "/a", True),
        ("/a$", "/a$b", False),
        ("/a$", "/a/", False),
        ("/a$b", "/a$bc", True),
        ("/a%24", "/a$b", True),
        ("/*.php", "/index.php?x=1", True),
        ("/*.php$", "/index.php5", False),
        ("/*/b*/c$", "/a/b/x/c", True),
        ("/*/b*/c$", "/a/b/x/cd", False),
        ("/a*a$", "/a", False),
        ("/a**b", "/aXb", True),
        ("*secret", "/docs/secret", True),
        ("/a%2Ab", "/a*b", True),
        ("/a%2Ab", "/aXb", False),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", False),
        ("/foo/bar?baz=http:", "/foo/bar?baz=http%3A//x", True),
        ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", True),
        ("/foo/%62%61%7A", "/foo/baz", True),
        ("/x%2fy", "/x/y", False),
        ("/x%2fy", "/x%2Fy", True),
        ("/100%", "/100%25", True),
        ("secret", "/secret", False),
    ],
)
def test_a_pattern_matches_the_paths_that_rfc_9309_says(pattern: str, path: str, matches: bool) -> None:
    rules = robots(200, f"User-agent: *\nDisallow: {pattern}\n".encode(), AGENT)
    assert rules.allows("https://a.example" + path) is not matches


@given(pattern=st.text("ab*$", max_size=8), path=st.text("ab", max_size=8))
def test_wildcards_match_what_a_regular_expression_matches(pattern: str, path: str) -> None:
    pieces = "/" + pattern.removesuffix("$")
    expected = re.match(
        ".*".join(map(re.escape, pieces.split("*"))) + ("$" if pattern.endswith("$") else ""), "/" + path
    )
    rules = robots(200, f"User-agent: *\nDisallow: /{pattern}\n".encode(), AGENT)
    assert rules.allows(f"https://a.example/{path}") == (expected is None)


@pytest.mark.parametrize(
    "rules", ["Allow: /a*\nDisallow: /a", "Disallow: /a/b\nAllow: /a/b", "Allow: /a/\nDisallow: /a$"]
)
def test_the_longest_rule_wins_and_allow_among_equals(rules: str) -> None:
    assert robots(200, f"User-agent: *\n{rules}\n".encode(), AGENT).allows("https://a.example/a/b")


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


@pytest.mark.parametrize("agent", ["tutti", "Tutti", "TUTTI/1.0", "tutti (+http://a.example)", "tutti*", "tutti # us"])
def test_an_agent_is_named_by_its_product_token_in_any_case(agent: str) -> None:
    body = f"User-agent: *\nDisallow:\nUser-agent: {agent}\nDisallow: /\n".encode()
    assert not robots(200, body, AGENT).allows("https://a.example/x")


@pytest.mark.parametrize(
    "agent", ["tut", "tutti-images", "not-tutti", "Mozilla/5.0 (compatible; tutti)", "1", "", "*x"]
)
def test_another_product_token_is_another_agent(agent: str) -> None:
    body = f"User-agent: *\nDisallow:\nUser-agent: {agent}\nDisallow: /\n".encode()
    assert robots(200, body, AGENT).allows("https://a.example/x")


def test_groups_of_the_same_agent_are_one() -> None:
    body = b"""\
User-agent: other
Disallow: /theirs
User-agent: tutti
User-agent: other
Disallow: /a
Crawl-delay: 3

User-agent: *
Disallow: /

User-agent: Tutti/2
Disallow: /b
"""
    rules = robots(200, body, AGENT)
    assert [rules.allows(f"https://a.example/{each}") for each in ("a", "b", "theirs")] == [False, False, True]
    assert rules.delay_seconds == 3.0


@pytest.mark.parametrize(
    "between",
    [
        "",
        "Unknown: x",
        "Sitemap: https://a.example/",
        "# x",
        "rubbish",
        "Host: x",
        "Crawl-delay: 5",
        "Request-rate: 1/5",
        "Visit-time: 0600-0845",
    ],
)
def test_what_is_no_rule_ends_no_group(between: str) -> None:
    body = f"User-agent: tutti\n{between}\nUser-agent: other\n{between}\nDisallow: /x\n".encode()
    assert not robots(200, body, AGENT).allows("https://a.example/x")


@pytest.mark.parametrize("line", ["Crawl-delay: 5", "Request-rate: 1/5"])
def test_a_pause_is_for_the_agents_before_it(line: str) -> None:
    body = f"User-agent: tutti\n{line}\nUser-agent: other\nDisallow: /x\n".encode()
    assert [robots(200, body, agent).delay_seconds for agent in (AGENT, "other")] == [5.0, 0.0]
    assert [robots(200, body, agent).allows("https://a.example/x") for agent in (AGENT, "other")] == [False, False]


@pytest.mark.parametrize("rule", ["Disallow: /a", "Disallow:", "Allow: /b", "Disalow /c"])
def test_a_rule_ends_the_agents_of_its_group(rule: str) -> None:
    body = f"User-agent: tutti\n{rule}\nUser-agent: other\nDisallow: /x\n".encode()
    assert robots(200, body, AGENT).allows("https://a.example/x")


@pytest.mark.parametrize("digits", [9, 400, 5_000])
@pytest.mark.parametrize("line", ["Crawl-delay: {}", "Crawl-delay: {}.5", "Request-rate: 1/{}", "Request-rate: 1/{}d"])
def test_a_pause_of_any_length_is_told_as_a_day_at_most(line: str, digits: int) -> None:
    rules = robots(200, f"User-agent: *\n{line.format('9' * digits)}\n".encode(), AGENT)
    assert rules.delay_seconds == LONGEST_DELAY_SECONDS


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("Crawl-delay: 0.3" + "3" * 99, 1 / 3),
        ("Request-rate: 2/5", 2.5),
        ("Request-rate: 1/1m", 60.0),
        ("Request-rate: " + "9" * 5_000 + "/1", 0.0),
        ("Crawl-delay: soon", 0.0),
        ("Crawl-delay: -1", 0.0),
        ("Crawl-delay: nan", 0.0),
    ],
)
def test_a_pause_is_as_long_as_it_is_written(line: str, seconds: float) -> None:
    assert robots(200, f"User-agent: *\n{line}\n".encode(), AGENT).delay_seconds == pytest.approx(seconds)


def test_a_group_of_ours_without_rules_wins_too() -> None:
    assert robots(200, b"User-agent: *\nDisallow: /\n\nUser-agent: tutti\n", AGENT).allows("https://a.example/x")


@pytest.mark.parametrize("line", ["disallow /x", "DISALOW: /x", "Disallow : /x", "user-agent: *", "Disallow\t/x # why"])
def test_fields_are_known_in_the_spellings_that_there_are(line: str) -> None:
    body = f"User Agent *\n{line}\ndisallow:/x\n".encode()
    rules = robots(200, body, AGENT)
    assert (rules.allows("https://a.example/x"), rules.allows("https://a.example/y")) == (False, True)


@pytest.mark.parametrize("ours", ["", "useragent:tutti\n", "useragent:*\n"])
def test_a_group_of_many_agents_and_many_rules_takes_no_more_than_its_bytes(ours: str) -> None:
    agents, rules = ("".join(f"{field}{number:x}\n" for number in range(600)) for field in ("useragent:a-", "allow:/"))
    tracemalloc.start()
    try:
        found = robots(200, f"{ours}{agents}{rules}disallow:/\n".encode(), AGENT)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 2 << 20
    assert found.allows("https://a.example/zz") == (not ours)


def test_the_rules_of_a_host_are_parsed_once_and_those_of_many_not_all_held() -> None:
    parsed = Parsed(AGENT, most_bytes=100)
    first = parsed.of(200, b"User-agent: *\nDisallow: /0\n")
    assert parsed.of(200, b"User-agent: *\nDisallow: /0\n") is first
    assert parsed.of(503, b"User-agent: *\nDisallow: /0\n").access is Access.UNAVAILABLE
    for number in range(1, 9):
        assert not parsed.of(200, f"User-agent: *\nDisallow: /{number}\n".encode()).allows(
            f"https://a.example/{number}"
        )
    assert parsed.of(200, b"User-agent: *\nDisallow: /0\n") is not first


def test_what_is_larger_than_all_that_is_held_is_held_alone() -> None:
    parsed, body = Parsed(AGENT, most_bytes=10), b"User-agent: *\nDisallow: /x\n"
    parsed.of(404, b"")
    assert parsed.of(200, body) is parsed.of(200, body)
