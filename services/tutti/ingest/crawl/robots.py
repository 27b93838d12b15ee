"""Robots: what a host allows, after RFC 9309.

Its text is parsed by protego; what its answer means is decided here (section 2.3): a page that is not there (4xx)
allows everything, one that cannot be had (5xx, 429, time, connection) nothing, until it can.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import StrEnum

from protego import Protego

MAX_BYTES = 500 << 10
MAX_REDIRECTS = 5
MAX_DELAY_SECONDS = 60.0
"""A host that asks for a longer pause between two pages is not crawled: it would take for ever, or ask for no visit."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Access(StrEnum):
    """How the rules of a host came about."""

    RULES = "rules"  # from its robots.txt
    NONE_GIVEN = "none given"  # there is none: everything is allowed
    UNAVAILABLE = "unavailable"  # it could not be had: nothing is allowed


@dataclass(frozen=True)
class Robots:
    """What one host allows one agent."""

    access: Access
    agent: str
    _rules: Protego

    def allows(self, url: str) -> bool:
        if self.access is Access.UNAVAILABLE:
            return False
        return bool(self._rules.can_fetch(url, self.agent))

    @property
    def delay_seconds(self) -> float:
        """The pause that the host asks for between two pages, 0 for none."""
        delay = self._rules.crawl_delay(self.agent)
        rate = self._rules.request_rate(self.agent)
        of_rate = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        return max(float(delay or 0.0), of_rate, 0.0)

    @property
    def sitemaps(self) -> list[str]:
        """As they are written, in their order, each once."""
        return list(dict.fromkeys(self._rules.sitemaps))


def robots(status: int | None, body: bytes, agent: str) -> Robots:
    """The rules in an answer to GET /robots.txt after its redirects; `status` is None when there was none in time."""
    if status is not None and 200 <= status < 300:
        return Robots(Access.RULES, agent, Protego.parse(_text(body)))
    return Robots(Access.UNAVAILABLE if unavailable(status) else Access.NONE_GIVEN, agent, Protego.parse(""))


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
