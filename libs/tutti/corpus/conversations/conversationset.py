"""A set of conversations: the manifest of JSON lines, a conversation each, in the order of their digests.

Promises: the same conversations and split have the same manifest, whatever files they came from in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tutti.corpus.conversations.conversations import Conversation, from_lines
from tutti.records.canonical import JsonValue, keyed_bytes
from tutti.records.errors import InvalidManifest
from tutti.records.fields import Digest, Fields
from tutti.records.manifest import Kind, Manifest
from tutti.records.records import later, written

_UNIT = 2.0**64


@dataclass(frozen=True, slots=True)
class Lines:
    """A blob of JSON lines: its key, the digest of its bytes, how many bytes and how many lines."""

    blob: str
    bytes_digest: Digest
    bytes: int
    count: int

    def to_json(self) -> dict[str, JsonValue]:
        return written(self)

    @classmethod
    def of(cls, manifest: Manifest, field: str = "lines") -> Lines:
        """Return the blob of lines that a manifest names. Raises InvalidManifest."""
        return Fields(manifest.body, path="body", error=InvalidManifest).nested(field).record(cls)


@dataclass(frozen=True, slots=True)
class Licensed:
    """The number of conversations under a licence."""

    licence: str
    conversations: int


def _licensed(value: Any) -> tuple[Licensed, ...]:
    """Raises InvalidManifest."""
    if not isinstance(value, list):
        raise InvalidManifest(f"body.licences: expected a list, seen {type(value).__name__}")
    items = [Fields(each, path=f"body.licences[{at}]", error=InvalidManifest) for at, each in enumerate(value)]
    return tuple(each.record(Licensed) for each in items)


@dataclass(frozen=True, slots=True)
class ConversationsBody:
    """`layouts` counts the conversations that were read by the layout of their file, `rejected` the records that were
    not by reason; `duplicates` were read and left out. `parts` counts the conversations of each part of the split.
    `licences` counts the conversations by licence, by name, if the set was made with a key about licences.
    """

    lines: Lines
    layouts: Mapping[str, int]
    rejected: Mapping[str, int]
    duplicates: int
    parts: Mapping[str, int] = field(default_factory=dict)
    licences: tuple[Licensed, ...] = later((), since="0.2", read=_licensed)

    def manifest(self, *, producer: str) -> Manifest:
        return Manifest(kind=Kind.CONVERSATIONS, body=written(self), parents=(), producer=producer)

    @classmethod
    def read(cls, manifest: Manifest) -> ConversationsBody:
        """Raises InvalidManifest naming the field that is missing or wrong."""
        body = Fields.of(manifest, Kind.CONVERSATIONS).record(cls)
        manifest.require_read(body.manifest(producer=manifest.producer).body)
        return body


def in_part(data: bytes, part: str = "") -> Iterator[Conversation]:
    """The conversations of JSON lines that belong to a part of the split; of all parts for "".

    Raises InvalidConversation.
    """
    return (each for each in from_lines(Conversation, data) if part in ("", each.part))


def part_of(digest: str, split: Mapping[str, float], seed: int) -> str:
    """The part that a conversation belongs to by its digest; "" where there is no split.

    The shares add up to 1. The order in which they are given makes no difference.
    """
    drawn = keyed_bytes("conversation split", digest.encode(), str(seed).encode())
    at = int.from_bytes(drawn[:8], "little") / _UNIT
    names: Sequence[str] = sorted(name for name, share in split.items() if share > 0)
    reached = 0.0
    for name in names:
        reached += split[name]
        if at < reached:
            return name
    return names[-1] if names else ""
