"""Robots: what a host allows, after RFC 9309.

Its rules are parsed by protego; whom they are for is decided here (section 2.2), and what an answer means (section
2.3): a page that is not there (4xx) allows everything, one that cannot be had (5xx, 429, time, connection) nothing,
until it can.

Promises: what a file takes, in time and memory, grows with its bytes alone, whatever it says.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from enum import StrEnum

from protego import Protego

MAX_BYTES = 500 << 10
MAX_REDIRECTS = 5
HELD_BYTES = 2 << 20
"""Of files whose rules are held; parsed they take up to seventy times as much."""
MAX_DELAY_SECONDS = 60.0
"""A host that asks for a longer pause between two pages is not crawled: it would take for ever, or ask for no visit."""
LONGEST_DELAY_SECONDS = 86_400.0
"""Of what is asked for no more is told."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LINE = re.compile(
    r"(user[- ]?agent|sitemaps?|site-map"
    r"|allow|diss?all?ow|diasllow|disallaw|crawl[- ]delay|request[- ]rate|visit[- ]time)(?:\s*[:\s]\s*(.*)|$)",
    re.IGNORECASE,
)
"""A field, in the spellings that there are, and its value."""
_OTHERS = ("crawl", "request", "visit")
"""How fields of a group begin that are no rules of RFC 9309."""
_LONG_NUMBER = re.compile(r"(\d{18})\d+")
"""Of more digits than anybody means: of hundreds a float is infinite, thousands are no number at all."""
_ANY = "*"
_TOKEN = re.compile(r"\*(?!\S)|[A-Za-z_-]+")
"""The product token of an agent, or the sign for all."""


class Access(StrEnum):
    """How the rules of a host came about."""

    RULES = "rules"  # from its robots.txt
    NONE_GIVEN = "none given"  # there is none: everything is allowed
    UNAVAILABLE = "unavailable"  # it could not be had: nothing is allowed


@dataclass(frozen=True)
class Robots:
    """What one host allows one agent."""

    access: Access
    _rules: Protego

    def allows(self, url: str) -> bool:
        if self.access is Access.UNAVAILABLE:
            return False
        return bool(self._rules.can_fetch(url, _ANY))

    @property
    def delay_seconds(self) -> float:
        """The pause that the host asks for between two pages, 0 for none."""
        delay = self._rules.crawl_delay(_ANY)
        rate = self._rules.request_rate(_ANY)
        of_rate = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        return min(max(float(delay or 0.0), of_rate, 0.0), LONGEST_DELAY_SECONDS)

    @property
    def sitemaps(self) -> list[str]:
        """As they are written, in their order, each once."""
        return list(dict.fromkeys(self._rules.sitemaps))


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
    """The rules in an answer to GET /robots.txt after its redirects; `status` is None when there was none in time."""
    if has_rules(status):
        return Robots(Access.RULES, Protego.parse(ours(_text(body), agent)))
    return Robots(Access.UNAVAILABLE if unavailable(status) else Access.NONE_GIVEN, Protego.parse(""))


def ours(text: str, agent: str) -> str:
    """What a text says to an agent, as one group for all: the rules of the groups that name it, else of those for all
    (RFC 9309, section 2.2.1); and the sitemaps. Parsers keep each rule for each agent of its group.

    Only `allow` and `disallow` end the agents of a group: they alone are rules there (section 2.1), and other records
    must not interfere with the parsing of those (2.2.4). So the rules behind a pause are for the agents before it too,
    as Google's parser reads it; the pause is for those before it alone.
    """
    rules: dict[str, list[str]] = {}
    sitemaps: list[str] = []
    named, open_to_names = set[str](), False
    for line in text.splitlines():
        found = _LINE.fullmatch(line.partition("#")[0].strip())
        if found is None:
            continue
        field, value = found[1].lower(), found[2] or ""
        if field.startswith("site"):
            sitemaps.append(f"{field}:{value}")
        elif field.startswith("user"):
            named = named if open_to_names else set()
            open_to_names = True
            token = _TOKEN.match(value)
            if token and token[0].lower() in (_ANY, agent.lower()):
                named.add(token[0].lower())
                rules.setdefault(token[0].lower(), [])
        else:
            if field.startswith(_OTHERS):
                value = _LONG_NUMBER.sub(r"\1", value)
            else:
                open_to_names = False
            for name in named:
                rules[name].append(f"{field}:{value}")
    return "\n".join([f"user-agent:{_ANY}", *rules.get(agent.lower(), rules.get(_ANY, [])), *sitemaps])


def has_rules(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def unavailable(status: int | None) -> bool:
    """Whether rules could not be had, after redirects, of which too many count as a page that is not there."""
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
