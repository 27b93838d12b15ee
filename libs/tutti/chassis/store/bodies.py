"""Digests of bodies: what makes two requests equal, and what shows that a row is damaged.

Promises: a request's digest is over canonical JSON (RFC 8785) without `request_id` and `validate_only`; a row's is over
every byte that decides, so that one flipped byte is found.
"""

from blake3 import blake3
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from tutti.records.canonical import canonical_json

_NOT_CONTENT = ("request_id", "validate_only", "revision")


def content_digest(message: Message) -> str:
    """Two messages with the same digest ask for the same thing."""
    copy = type(message)()
    copy.CopyFrom(message)
    for field in _NOT_CONTENT:
        if field in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(field)
    content = MessageToDict(copy, preserving_proto_field_name=True)
    return _named(blake3(canonical_json({"type": message.DESCRIPTOR.full_name, "content": content})))


def seal(*parts: bytes | str) -> str:
    """The digest of a row's values, each with its length."""
    digest = blake3(b"tutti.row.v1")
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return _named(digest)


def _named(digest: blake3) -> str:
    return f"blake3:{digest.hexdigest()}"
