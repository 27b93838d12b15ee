"""Near-duplicates among conversations, found in their texts as `near.py` finds them in those of documents.

Promises: the answer is a function of the set of conversations, in any order. The text of a conversation is that of the
messages beside its system message; only conversations with equal system messages are compared, and none with fewer than
LEAST_SHINGLES different shingles.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tutti.corpus.conversations.conversations import Conversation, Role
from tutti.dedup.heldout import TOGETHER, batch, said
from tutti.dedup.names import Names
from tutti.dedup.near import THRESHOLD, near_duplicates
from tutti.dedup.shards import BATCH_DOCUMENTS
from tutti.dedup.verification import sets

LEAST_SHINGLES = 45
"""The fewest different shingles of a conversation that is compared.

A changed word changes up to 5 of n shingles, so the similarity is at least (n - 5) / (n + 5): THRESHOLD from 45 on. In
a shorter text it would depend on the place of the word, which may be all that two short questions differ in.
"""


@dataclass(frozen=True, slots=True, order=True)
class Repeated:
    """`digest` is that of a near-duplicate of the conversation `of`, the smallest digest of its cluster; `similarity`
    is that to it, 0 if others link the two.
    """

    digest: str
    of: str
    similarity: float


def repeated(conversations: Sequence[Conversation], threshold: float = THRESHOLD) -> list[Repeated]:
    """The conversations that another one represents, by their digests. Raises ValueError as `near_duplicates` does."""
    groups: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in _long(conversations):
        groups[_system(each)][each.digest] = said(each)
    return sorted(found for texts in groups.values() if len(texts) > 1 for found in _among(texts, threshold))


def _long(conversations: Sequence[Conversation]) -> Iterator[Conversation]:
    """Those with at least LEAST_SHINGLES different shingles."""
    for first in range(0, len(conversations), TOGETHER):
        here = conversations[first : first + TOGETHER]
        _, bounds = sets(pa.array([said(each) for each in here], pa.large_string()))
        for each, shingles in zip(here, np.diff(bounds).tolist(), strict=True):
            if shingles >= LEAST_SHINGLES:
                yield each


def _among(texts: Mapping[str, str], threshold: float) -> Iterator[Repeated]:
    every = batch(texts)

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        some = every.select(list(columns))
        return (some.slice(first, BATCH_DOCUMENTS) for first in range(0, some.num_rows, BATCH_DOCUMENTS))

    names = Names([every["doc_id"]])
    with tempfile.TemporaryDirectory(prefix="tutti-dialogues-") as folder:
        near = near_duplicates(read, names, Path(folder), threshold=threshold)
    others = np.flatnonzero(near.roots != np.arange(len(names)))
    digests, represented_by = (names.ids(each).to_pylist() for each in (others, near.roots[others]))
    yield from map(Repeated, digests, represented_by, near.similarity[others].tolist())


def _system(conversation: Conversation) -> str:
    return "\n\n".join(each.content for each in conversation.messages if each.role is Role.SYSTEM)
