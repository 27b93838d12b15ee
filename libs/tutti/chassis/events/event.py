"""Events: what a handler receives, and the headers that carry it (CloudEvents, Kafka binding).

Promises: an Event's message is decoded and its subject is the resource that the message names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from blake3 import blake3
from google.protobuf.message import DecodeError

from tutti.backbone.eventlog import Record
from tutti.chassis.events.catalog import EventType

MAX_PAYLOAD_BYTES = 64 * 1024
DIGEST = "digest"
"""The header with the digest of the others and of the payload."""
_SORTED = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


@dataclass(frozen=True)
class Event:
    """`message` is the decoded proto; `revision` is the resource's when the event was emitted; `user`: on whose behalf
    that was, as an opaque id, empty where nobody asked."""

    id: str
    type: str
    subject: str
    revision: int
    time: datetime
    request_id: str
    message: Any
    traceparent: str = ""
    user: str = ""


class Undecodable(Exception):
    """The record cannot be an event of the type that it names."""


def headers(event: Event, source: str, payload: bytes) -> dict[str, str]:
    """The headers of the envelope of a payload; those without a value are left out."""
    every = {
        "ce_specversion": "1.0",
        "ce_id": event.id,
        "ce_type": event.type,
        "ce_source": source,
        "ce_subject": event.subject,
        "ce_time": event.time.isoformat(),
        "content-type": "application/protobuf",
        "revision": str(event.revision),
        "request_id": event.request_id,
        "traceparent": event.traceparent,
        "user": event.user,
    }
    told = {name: value for name, value in every.items() if value}
    return {**told, DIGEST: digest_of(told, payload)}


def digest_of(found: Mapping[str, str], payload: bytes) -> str:
    """Return the digest of a record: of its payload and of its headers but for the digest itself, in hexadecimal."""
    words = _SORTED.encode({name: value for name, value in found.items() if name != DIGEST})
    return blake3(words.encode() + b"\0" + payload).hexdigest()


def decode(record: Record, kind: EventType) -> Event:
    """The event in a record of a known type. Raises Undecodable, which says what is wrong with it."""
    found: Mapping[str, str] = record.headers
    for header in ("ce_id", "ce_subject", "ce_time", "revision"):
        if not found.get(header):
            raise Undecodable(f"the header {header} is missing")
    try:
        message = kind.message.FromString(record.value)
    except DecodeError as error:
        raise Undecodable(f"the payload of {len(record.value)} bytes is no {kind.type}: {error}") from None
    subject = found["ce_subject"]
    if record.key != subject or getattr(message, kind.key) != subject:
        raise Undecodable(
            f"its key is {record.key!r}, its subject {subject!r} and its {kind.key} "
            f"{getattr(message, kind.key)!r}: they must be equal"
        )
    try:
        revision, time = int(found["revision"]), datetime.fromisoformat(found["ce_time"])
    except ValueError as error:
        raise Undecodable(f"a header has no value of its kind: {error}") from None
    if revision < 1 or time.tzinfo is None:
        raise Undecodable(f"revision {revision} must be at least 1, time {time} must have a zone")
    return Event(
        found["ce_id"],
        kind.type,
        subject,
        revision,
        time,
        found.get("request_id", ""),
        message,
        found.get("traceparent", ""),
        found.get("user", ""),
    )
