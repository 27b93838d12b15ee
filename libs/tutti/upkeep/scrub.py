"""The blobs of a scrub: each is read and compared with its digest, before somebody needs it.

Promises: nothing is changed; a blob's digest is the one that a manifest states (`bytes_digest`), or else the one in its
key; manifests are compared with their own content digest; what nothing states a digest of is counted apart. Bytes that
differ are read twice before they count as damaged.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobError, BlobMissing, BlobsUnavailable, is_there
from tutti.corpus.tokens.dataset import tokenizer_key
from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError
from tutti.records.canonical import named
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest
from tutti.upkeep.scrubs import Damage, Looked, Scrub

BLOBS = "blobs"
PIECE = 4 << 20
LISTED = 1000
"""Blobs that are listed in one look."""
_NAMED = re.compile(r".*/([0-9a-f]{64})(\.[A-Za-z0-9._-]+|=[a-z0-9][a-z0-9._-]*)?")  # it may end with a node
_KINDS = tuple(str(kind) for kind in Kind)
_MANIFEST = "manifest"
"""Expected of a manifest, instead of a digest of its bytes."""
_MANIFESTS_READ = " "
"""A place before every key."""


@dataclass(frozen=True)
class Scrubbed:
    """`unstated` blobs have no digest to compare with; `damaged` says what is wrong, a line for each blob."""

    blobs: int
    bytes: int
    unstated: int
    damaged: tuple[str, ...]


def scrub(blobs: Blobs, *, progress: Callable[[int, int], None] = lambda done, total: None) -> Scrubbed:
    """Read the whole store at once. `progress` hears the bytes that were read, of all. Raises BlobsUnavailable."""
    total, done = sum(stat.size for stat in blobs.list("")), 0
    found = Scrub(began_at=0, rate=0)
    damaged: list[str] = []
    for looked in look(blobs, "", lambda key: True):
        done += looked.read
        progress(done, total)
        found = found.with_look(looked)
        damaged += [each.message for each in looked.damages]
    return Scrubbed(found.blobs, found.bytes, found.unstated, tuple(damaged))


def look(blobs: Blobs, prefix: str, belongs: Callable[[str], bool], after: str = "") -> Iterator[Looked]:
    """Read the blobs below a prefix, and those that `belong` among what its manifests state, wherever they are.

    `after` is the place where an earlier scrub was. Raises BlobsUnavailable.
    """
    sizes: dict[str, int] = {}
    for stat in blobs.list(prefix):
        sizes[stat.key] = stat.size
        if len(sizes) % LISTED == 0:
            yield Looked()
    manifests = [key for key in sizes if is_manifest(key)]
    stated: dict[str, tuple[str, str]] = {}
    for key in manifests:
        try:
            body = Manifest.decode(blobs.get(key), expected=_KINDS).body
            stated.update((each, (digest, key)) for each, digest in _stated(body) if belongs(each))
        except BlobsUnavailable:
            raise
        except (CorpusError, BlobError):
            pass  # it is read again for the message
        if after:
            yield Looked(read=sizes[key])
        else:
            yield from _checked(blobs, key, sizes[key], _MANIFEST, "")
    keys = sorted((sizes.keys() | stated.keys()) - set(manifests))
    yield Looked(total=len(keys) + len(manifests), after=after or _MANIFESTS_READ)
    for key in keys[bisect_right(keys, after) :]:
        digest, manifest = stated.get(key, ("", ""))
        in_name = digest_in(key)
        expected = digest or (f"blake3:{in_name}" if in_name else "")
        if expected:
            yield from _checked(blobs, key, sizes.get(key), expected, manifest)
        else:
            yield Looked(blobs=1, unstated=1)
        yield Looked(after=key)


def is_manifest(key: str) -> bool:
    return key.split("/")[-2] == "manifests"


def digest_in(key: str) -> str:
    """The digest in the name of a blob, in hexadecimal; empty if there is none."""
    found = _NAMED.fullmatch(key)
    return found[1] if found else ""


def wrong(blobs: Blobs, key: str, expected: str, size: int | None = None) -> Generator[Looked, None, tuple[str, int]]:
    """Read a blob of this size, if it is known; what is wrong with it, empty if nothing is, and its bytes.

    Raises BlobMissing, BlobsUnavailable.
    """
    size = blobs.stat(key).size if size is None else size
    try:
        if expected == _MANIFEST:
            Manifest.decode(blobs.get(key), expected=_KINDS)
        elif key == tokenizer_key(expected):  # it is named by the digest of what it says
            BytePairTokenizer.load(blobs.get(key), expected_version=expected)
        else:
            state = blake3()
            for start in range(0, size, PIECE):
                piece = blobs.get_range(key, start, min(PIECE, size - start))
                state.update(piece)
                yield Looked(read=len(piece))
            seen = named(state)
            return f"its bytes have digest {seen}, expected {expected}" if seen != expected else "", size
    except (BlobMissing, BlobsUnavailable):
        raise
    except (CorpusError, BlobError, TokenizerError) as error:
        return str(error), size
    yield Looked(read=size)
    return "", size


def _checked(blobs: Blobs, key: str, size: int | None, expected: str, manifest: str) -> Iterator[Looked]:
    """`manifest` is the one that states the digest, if one does."""
    try:
        message, nbytes = yield from wrong(blobs, key, expected, size)
        if message:
            message, nbytes = yield from wrong(blobs, key, expected)
    except BlobMissing:
        if manifest and is_there(blobs, manifest):
            line = f"{key}: it is missing, expected {expected}"
            yield Looked(blobs=1, damages=(Damage(BLOBS, key, line, missing=True, expected=expected),))
        return  # else it was deleted meanwhile, with its manifest if it has one
    damages = (Damage(BLOBS, key, f"{key}: {message}", expected=expected),) if message else ()
    yield Looked(blobs=1, bytes=nbytes, damages=damages)


def _stated(value: Any) -> Iterator[tuple[str, str]]:
    """Key and digest of every blob that the body of a manifest names."""
    if isinstance(value, dict):
        key = value.get("key", value.get("blob"))
        if isinstance(key, str) and isinstance(value.get("bytes_digest"), str):
            yield key, value["bytes_digest"]
        for inner in value.values():
            yield from _stated(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _stated(inner)
