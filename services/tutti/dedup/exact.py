"""Exact duplicates: of documents with the same text, the smallest id stays.

The answer is a function of the set of documents, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class ConflictingDocument(Exception):
    """One doc_id came with two texts: an input is damaged."""


@dataclass(frozen=True, slots=True, order=True)
class Cluster:
    """Documents with one text: `kept` and what it stands for, sorted."""

    kept: str
    dropped: tuple[str, ...]
    text_digest: str


@dataclass(frozen=True, slots=True)
class ExactDuplicates:
    """`kept`: the documents that stay, sorted; `clusters`: the texts that came more than once, by kept id."""

    kept: tuple[str, ...]
    clusters: tuple[Cluster, ...]

    @property
    def dropped(self) -> int:
        return sum(len(cluster.dropped) for cluster in self.clusters)


def exact_duplicates(documents: Iterable[tuple[str, str]]) -> ExactDuplicates:
    """Cluster pairs of (doc_id, text_digest); a pair that comes twice counts once."""
    texts: dict[str, str] = {}
    for doc_id, digest in documents:
        if texts.setdefault(doc_id, digest) != digest:
            raise ConflictingDocument(
                f"document {doc_id} has texts {texts[doc_id]} and {digest}; read its shards again"
            )
    holders: dict[str, list[str]] = {}
    for doc_id in sorted(texts):
        holders.setdefault(texts[doc_id], []).append(doc_id)
    clusters = [Cluster(ids[0], tuple(ids[1:]), digest) for digest, ids in holders.items() if len(ids) > 1]
    return ExactDuplicates(kept=tuple(sorted(ids[0] for ids in holders.values())), clusters=tuple(sorted(clusters)))
