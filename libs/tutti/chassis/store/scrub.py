"""Scrub: read every blob and compare it with its digest, before somebody needs it.

Promises: nothing is changed; a blob's digest is the one that a manifest states (`bytes_digest`), or else the one in its
key; manifests are compared with their own content digest; what nothing states a digest of is counted apart; no more
than the given rate is read.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobError, BlobMissing, BlobsUnavailable, Stat
from tutti.corpus.dataset import tokenizer_key
from tutti.corpus.manifest import Kind, Manifest
from tutti.corpus.tokenizer import BytePairTokenizer, TokenizerError
from tutti.records.errors import CorpusError

PIECE = 4 << 20
_NAMED = re.compile(r".*/([0-9a-f]{64})(\.[A-Za-z0-9._-]+)?")
_KINDS = tuple(str(kind) for kind in Kind)


@dataclass(frozen=True)
class Scrubbed:
    """`unstated` blobs have no digest to compare with; `damaged` says what is wrong, a line for each blob."""

    blobs: int
    bytes: int
    unstated: int
    damaged: tuple[str, ...]


def scrub(
    blobs: Blobs,
    *,
    bytes_per_second: float = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    wait: Callable[[float], None] = time.sleep,
) -> Scrubbed:
    """Read the whole store, at any rate if `bytes_per_second` is 0. Raises BlobsUnavailable."""
    every = list(blobs.list(""))
    total, began, done = sum(stat.size for stat in every), time.monotonic(), 0
    damaged: list[str] = []
    stated: dict[str, str] = {}

    def paced(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)
        if bytes_per_second:
            wait(max(0.0, done / bytes_per_second - (time.monotonic() - began)))

    for stat in [stat for stat in every if _is_manifest(stat.key)]:
        try:
            manifest = Manifest.decode(blobs.get(stat.key), expected=_KINDS)
            stated.update(_stated(manifest.body))
        except BlobsUnavailable:
            raise
        except (CorpusError, BlobError) as error:
            damaged.append(f"{stat.key}: {error}")
        paced(stat.size)
    unstated = 0
    for stat in [stat for stat in every if not _is_manifest(stat.key)]:
        named = _NAMED.fullmatch(stat.key)
        expected = stated.pop(stat.key, f"blake3:{named[1]}" if named else "")
        if not expected:
            unstated += 1
            continue
        try:
            if stat.key == tokenizer_key(expected):  # it is named by the digest of what it says
                BytePairTokenizer.load(blobs.get(stat.key), expected_version=expected)
                paced(stat.size)
                continue
            found = _digest(blobs, stat, paced)
        except BlobMissing:
            continue  # it was deleted meanwhile
        except TokenizerError as error:
            damaged.append(f"{stat.key}: {error}")
            continue
        if found != expected:
            damaged.append(f"{stat.key}: its bytes have digest {found}, expected {expected}")
    for key, expected in sorted(stated.items()):  # missing, or written while the store was listed
        try:
            found = _digest(blobs, blobs.stat(key), paced)
        except BlobMissing:
            found = "none: it is missing"
        if found != expected:
            damaged.append(f"{key}: its bytes have digest {found}, expected {expected}")
    return Scrubbed(len(every), total, unstated, tuple(damaged))


def _is_manifest(key: str) -> bool:
    return key.split("/")[-2] == "manifests"


def _digest(blobs: Blobs, stat: Stat, paced: Callable[[int], None]) -> str:
    hasher = blake3()
    for start in range(0, stat.size, PIECE):
        piece = blobs.get_range(stat.key, start, min(PIECE, stat.size - start))
        hasher.update(piece)
        paced(len(piece))
    return f"blake3:{hasher.hexdigest()}"


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
