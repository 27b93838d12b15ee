"""Answers: what a server says, within limits, and how its body is read.

Redirects are answers like any other; whoever asked decides whether to follow. `fetcher.py` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tutti.ingest.reading.encodings import undone

HELD_BYTES = 32 << 20
"""Maximum bytes of all bodies that are read at once; a larger one is read alone."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes are of the body as it came, and once it is decoded. `cut`: of a larger one the beginning is taken."""

    connect_seconds: float = 10.0
    silent_seconds: float = 20.0
    total_seconds: float = 60.0
    max_bytes: int = 10 << 20
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a server. `body` is as received except for chunks, `whole` unless only its beginning was read;
    `headers` in their order, as they were written.
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
    """The interface that fetches pages."""

    async def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a canonical URL. Raises FetchFailed."""
        ...


def decoded(answer: Answer, max_bytes: int, *, cut: bool = False) -> bytes:
    """The body without its content encodings. Raises FetchFailed when one is unknown, wrong or makes it too large.

    `cut`: of what is too large, or was taken in part, as much as there is, at most `max_bytes`.
    """
    part = cut and not answer.whole
    return undone(answer.body, answer.header("Content-Encoding"), max_bytes, cut=cut, part=part)
