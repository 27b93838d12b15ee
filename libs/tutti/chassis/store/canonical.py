"""Canonical lines: the state of a service as text that can be compared byte for byte.

Promises: sorted by name; RFC 8785 JSON; nothing in it but what the service put there.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tutti.records.canonical import canonical_json


class DuplicateLine(ValueError):
    """Two lines have the same name."""


@dataclass(frozen=True)
class CanonicalLine:
    """`content` holds no times, random ids, revisions, terms, epochs, placements or attempts."""

    name: str
    content: Mapping[str, Any]


def render(lines: Iterable[CanonicalLine]) -> Iterator[str]:
    """One line of canonical JSON a resource, in name order. Raises DuplicateLine."""
    before: str | None = None
    for line in sorted(lines, key=lambda each: each.name):
        if line.name == before:
            raise DuplicateLine(f"{line.name} was exported twice")
        before = line.name
        yield canonical_json({"name": line.name, "content": dict(line.content)}).decode()
