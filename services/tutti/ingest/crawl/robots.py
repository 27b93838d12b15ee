"""Robots: what a host allows an agent, by RFC 9309.

A robots.txt that does not exist (4xx) allows everything; one that is unavailable (5xx, 429, timeout, no connection)
allows nothing until it is available (section 2.3).

Promises: time and memory are linear in the bytes of a file, whatever it says.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote_to_bytes

from tutti.ingest.crawl.urls import host_of

MAX_BYTES = 500 << 10
MAX_REDIRECTS = 5
HELD_BYTES = 2 << 20
"""Maximum bytes of files whose rules are held in memory; parsed rules take up to fifteen times as much."""
MAX_DELAY_SECONDS = 60.0
"""A host that asks for a longer pause between two pages is not crawled: it would take for ever, or ask for no visit."""
LONGEST_DELAY_SECONDS = 86_400.0
"""Maximum delay that is reported."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LINE = re.compile(
    r"(user[- ]?agent|sitemaps?|site-map"
    r"|allow|diss?all?ow|diasllow|disallaw|crawl[- ]delay|request[- ]rate|visit[- ]time)(?:\s*[:\s]\s*(.*)|$)",
    re.IGNORECASE,
)
"""A field, in the spellings that there are, and its value."""
_NOT_RULES = ("crawl", "request", "visit")
"""Prefixes of fields that belong to a group and are no rules of RFC 9309."""
_DELAY = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[Ee][0-9]{1,3})?")
_RATE = re.compile(r"([0-9]+)/([0-9]+)([smhd]?)(?!\S)", re.IGNORECASE)
"""Pages, and the time for them, such as `1/5m`."""
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DIGITS = 18
"""Maximum number of digits that are read of a number."""
_WILDCARD = re.compile(r"\*+")
_NORMAL = re.compile(r"[A-Za-z0-9._~/-]*")
_ESCAPED_SLASH = re.compile("%2F", re.IGNORECASE)
_ANY = "*"
_TOKEN = re.compile(r"\*(?!\S)|[A-Za-z_-]+")
"""The product token of an agent, or the sign for all."""


class Access(StrEnum):
    """The way in which the rules of a host were obtained."""

    RULES = "rules"  # from its robots.txt
    NONE_GIVEN = "none given"  # there is none: everything is allowed
    UNAVAILABLE = "unavailable"  # it could not be had: nothing is allowed


@dataclass(frozen=True, slots=True)
class Rule:
    """A path pattern of `allow` or `disallow`: literal pieces between wildcards, in normal form."""

    allow: bool
    pieces: tuple[str, ...]
    anchored: bool
    """The pattern ends in `$`: it matches the end of the path."""

    @classmethod
    def of(cls, pattern: str, *, allow: bool) -> Rule:
        anchored = pattern.endswith("$")
        return cls(allow, tuple(map(_normal, _WILDCARD.split(pattern.removesuffix("$")))), anchored)

    @property
    def precedence(self) -> tuple[int, bool]:
        """The longest pattern wins, and `allow` among equals (RFC 9309, section 2.2.2)."""
        return sum(map(len, self.pieces)) + len(self.pieces) - 1 + self.anchored, self.allow

    def matches(self, path: str) -> bool:
        first, *others = self.pieces
        if not path.startswith(first):
            return False
        end = len(first)
        if not others:
            return not self.anchored or end == len(path)
        *middle, last = others
        for piece in middle:
            begin = path.find(piece, end)
            if begin < 0:
                return False
            end = begin + len(piece)
        return path.endswith(last, end) if self.anchored else last in path[end:]


@dataclass(frozen=True, slots=True)
class Robots:
    """The permissions of one host for one agent."""

    access: Access
    _rules: tuple[Rule, ...] = ()
    """In the order of precedence."""
    delay_seconds: float = 0.0
    """The pause that the host asks for between two pages."""
    sitemaps: tuple[str, ...] = ()
    """As they are written, in their order, each once."""

    def allows(self, url: str) -> bool:
        if self.access is Access.UNAVAILABLE:
            return False
        path = _normal(url.removeprefix(host_of(url)))
        return next((rule.allow for rule in self._rules if rule.matches(path)), True)


def _normal(path: str) -> str:
    """Return a path, or a piece of a pattern, in the one spelling in which they are compared.

    Every octet but letters, digits, `-._~` and `/` is escaped; an escaped `/` stays one.
    """
    if _NORMAL.fullmatch(path):
        return path
    return "%2F".join(quote(unquote_to_bytes(piece), safe="/") for piece in _ESCAPED_SLASH.split(path))


class Parsed:
    """The rules for an agent in answers, each parsed once: those that were wanted last are held, in at most so many
    bytes of answers, and the very last in any case.
    """

    def __init__(self, agent: str, most_bytes: int = HELD_BYTES) -> None:
        self._agent, self._most_bytes = agent, most_bytes
        self._held: dict[tuple[int | None, bytes], Robots] = {}
        self._nbytes = 0

    def of(self, status: int | None, body: bytes) -> Robots:
        key = status, body if has_rules(status) else b""
        found = self._held.pop(key, None)
        if found is None:
            found = robots(*key, self._agent)
            self._nbytes += len(key[1])
        self._held[key] = found
        while self._nbytes > self._most_bytes and len(self._held) > 1:
            oldest = next(iter(self._held))
            del self._held[oldest]
            self._nbytes -= len(oldest[1])
        return found


def robots(status: int | None, body: bytes, agent: str) -> Robots:
    """Return the rules in an answer to GET /robots.txt after its redirects; `status` is None after a timeout."""
    if has_rules(status):
        return parse(_text(body), agent)
    return Robots(Access.UNAVAILABLE if unavailable(status) else Access.NONE_GIVEN)


def parse(text: str, agent: str) -> Robots:
    """Return the rules of the groups that name an agent, else of those for all (RFC 9309, section 2.2.1), and sitemaps.

    Only `allow` and `disallow` end the agents of a group: they alone are rules there (section 2.1), and other records
    must not interfere with the parsing of those (2.2.4). So the rules behind a pause are for the agents before it too,
    as Google's parser reads it; the pause is for those before it alone.
    """
    groups: dict[str, _Group] = {}
    sitemaps: dict[str, None] = {}
    named, open_to_names = set[str](), False
    for line in text.splitlines():
        found = _LINE.fullmatch(line.partition("#")[0].strip())
        if found is None:
            continue
        name, value = found[1].lower(), (found[2] or "").strip()
        if name.startswith("site"):
            sitemaps[value] = None
        elif name.startswith("user"):
            named = named if open_to_names else set()
            open_to_names = True
            token = _TOKEN.match(value)
            if token and token[0].lower() in (_ANY, agent.lower()):
                named.add(token[0].lower())
                groups.setdefault(token[0].lower(), _Group())
        else:
            open_to_names = open_to_names and name.startswith(_NOT_RULES)
            for each in named:
                groups[each].add(name, value)
    ours = groups.get(agent.lower()) or groups.get(_ANY) or _Group()
    rules = sorted(dict.fromkeys(ours.rules), key=lambda rule: rule.precedence, reverse=True)
    return Robots(Access.RULES, tuple(rules), min(max(ours.delay, ours.rate), LONGEST_DELAY_SECONDS), tuple(sitemaps))


@dataclass(slots=True)
class _Group:
    """The rules and the pauses, in seconds, that were read so far for an agent."""

    rules: list[Rule] = field(default_factory=list)
    delay: float = 0.0
    rate: float = 0.0

    def add(self, name: str, value: str) -> None:
        """Add a record of the group; a value that has no meaning is skipped."""
        if not name.startswith(_NOT_RULES):
            if value:
                self.rules.append(Rule.of(value, allow=name == "allow"))
        elif name.startswith("crawl") and (delay := _DELAY.fullmatch(value)):
            self.delay = float(delay[0])
        elif name.startswith("request") and (rate := _RATE.match(value)) and rate[1].strip("0"):
            seconds = int(rate[2][:_DIGITS]) * _UNITS[rate[3].lower()]
            self.rate = seconds / int(rate[1][:_DIGITS])


def has_rules(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def unavailable(status: int | None) -> bool:
    """True if rules could not be fetched, after redirects, of which too many count as a missing page."""
    return status is None or status == 429 or not 200 <= status < 500


def _text(body: bytes) -> str:
    """The first MAX_BYTES, whole lines of them, in the encoding of their mark, else UTF-8."""
    if len(body) > MAX_BYTES:
        body = whole_lines(body[:MAX_BYTES])
    for mark, charset in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(charset, "replace").replace("\0", "")
    return body.decode("utf-8", "replace").replace("\0", "")


def whole_lines(body: bytes) -> bytes:
    """A beginning without its last line, of which there may be more: half a rule is another rule."""
    for mark, charset in _MARKS:
        if body.startswith(mark):
            text = body[len(mark) :].decode(charset, "replace")
            return mark + text[: _last_end(text)].encode(charset, "replace")
    return body[: _last_end(body.decode("latin-1"))]


def _last_end(text: str) -> int:
    return max(text.rfind("\n"), text.rfind("\r")) + 1
