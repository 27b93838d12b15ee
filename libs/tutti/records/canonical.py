"""Canonical JSON and BLAKE3 names.

The same value has the same bytes, and so the same digest, on every machine and in every version: RFC 8785 for the
bytes, BLAKE3 for the name.  Digests of different kinds of things never collide: each kind is a key-derivation context
of BLAKE3 (section 2.3 of its paper).  Integers beyond 2^53 - 1 have no canonical form: write them as strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import rfc8785
from blake3 import blake3

from tutti.records.errors import NotCanonical

_EXPECTED = "null, bool, int, float, str, list, or object with string keys"
JsonValue = None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]

DIGEST = re.compile(r"blake3:[0-9a-f]{64}")
DIGEST_BYTES = 32
_MUCH = 8 << 20
_READ = 1 << 20
_END = 2**53
_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def canonical_json(value: object) -> bytes:
    """The RFC 8785 bytes of `value`; raises NotCanonical for what JSON cannot say exactly."""
    try:
        if _is_plain(value):  # json is in C, and writes these as RFC 8785 does
            return _PLAIN.encode(value).encode()
        return rfc8785.dumps(value)  # type: ignore[arg-type]
    except (ValueError, RecursionError) as error:
        raise NotCanonical(f"no canonical JSON: {error}; expected {_EXPECTED}, integers within 2^53 - 1") from error


def _is_plain(value: object) -> bool:
    """True if the value has no fractions, no large integers, and no keys whose order depends on their encoding."""
    if isinstance(value, str) or value is None:
        return True
    if isinstance(value, int):
        return -_END < value < _END
    if isinstance(value, dict):
        return _are_plain_keys(value) and all(map(_is_plain, value.values()))
    return isinstance(value, list | tuple) and all(map(_is_plain, value))


def _are_plain_keys(keys: Iterable[object]) -> bool:
    """Below the surrogates code points sort as UTF-16 does."""
    try:
        written = "".join(keys)  # type: ignore[arg-type]
    except TypeError:
        return False
    return written.isascii() or max(written) < "\ud800"


def parse_json(data: bytes | str) -> JsonValue:
    """The value of JSON text, such that `canonical_json` gives canonical text back; raises NotCanonical."""
    try:
        value: JsonValue = json.loads(data, parse_int=_exact)
    except (ValueError, RecursionError) as error:
        raise NotCanonical(f"not JSON: {error}") from error
    return value


def _exact(digits: str) -> int | float:
    value = int(digits)
    return value if abs(value) < 2**53 else float(value)


def content_digest(value: object, *, kind: str) -> str:
    """`blake3:<hex>` of the canonical JSON of `value`, in the domain of `kind` (for example `manifest`)."""
    return named(hasher(kind).update(canonical_json(value)))


def bytes_digest(data: bytes | bytearray | memoryview) -> str:
    """`blake3:<hex>` of plain bytes: what `b3sum` prints for the same file. From 8 MiB on, all cores compute it."""
    large = memoryview(data).nbytes >= _MUCH
    return named(blake3(data, max_threads=blake3.AUTO if large else 1))


def file_digest(path: Path) -> str:
    """`bytes_digest` of a file, read a mebibyte at a time."""
    state = blake3()
    with path.open("rb") as file:
        while block := file.read(_READ):
            state.update(block)
    return named(state)


def keyed_bytes(kind: str, *parts: bytes) -> bytes:
    """32 bytes that name `parts` in the domain of `kind`; parts are framed, so ("ab", "c") differs from ("a", "bc")."""
    return framed(hasher(kind), parts).digest()


def hasher(kind: str) -> blake3:
    """A BLAKE3 state in the domain of `kind`."""
    return blake3(derive_key_context=f"tutti 2026 {kind} v1")


def framed(state: blake3, parts: Iterable[bytes]) -> blake3:
    """Add `parts` to `state`, each behind its length in eight little-endian bytes."""
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state


def named(state: blake3) -> str:
    """The written form of a digest."""
    return f"blake3:{state.hexdigest()}"


def is_digest(text: str) -> bool:
    """True if `text` is the written form of a digest."""
    return DIGEST.fullmatch(text) is not None
