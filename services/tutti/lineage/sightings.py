"""Sightings: which steps read which documents, from a ledger and the shards of a dataset.

Promises: pure over opened shards; a step counted from 1 reads what the sampler calls the step before it; both
directions say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from tutti.corpus.tokens.ledger import Ledger
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.native.arrays import np


@dataclass(frozen=True, order=True)
class Sighting:
    """A place where a document was read."""

    step: int
    leaf: int
    row: int
    sample: int
    document: str
    dataset: str
    skipped: bool = False


@dataclass(frozen=True)
class Shelf:
    """The opened shards of one split of a dataset, in sample order."""

    dataset: str
    shards: tuple[TokenShard, ...]

    def samples_of(self, document: str) -> list[int]:
        return [sample for shard in self.shards for sample in shard.samples_of(document)]

    def documents_of(self, sample: int) -> list[str]:
        shard = next(shard for shard in self.shards if shard.first_sample <= sample <= shard.last_sample)
        return shard.documents_of(sample)

    def documents(self) -> set[str]:
        return {shard.doc_id(index) for shard in self.shards for index in range(shard.header.documents)}

    @property
    def sequences(self) -> int:
        return sum(shard.sequences for shard in self.shards)


def of_document(shelf: Shelf, ledger: Ledger, document: str, *, until_step: int) -> Iterator[Sighting]:
    """Every place up to and with `until_step` where a token of the document was read, in order.

    A place is computed when it is asked for: small datasets are read in thousands of epochs.
    """

    def of_sample(sample: int) -> Iterator[Sighting]:
        for at in ledger.readings(shelf.dataset, sample, before_step=until_step):
            yield Sighting(at.step + 1, at.leaf, at.row, sample, document, shelf.dataset, at.skipped)

    return merge(*map(of_sample, shelf.samples_of(document)))


def of_step(shelf: Shelf, ledger: Ledger, step: int) -> Iterator[Sighting]:
    """Everything that one step read of a dataset, by leaf, row and document."""
    span = ledger.span_at(step - 1)
    names = [share.dataset_version for share in span.datasets]
    if shelf.dataset not in names:
        return
    own = names.index(shelf.dataset)
    skipped = any(skip.step == step - 1 for skip in ledger.skipped)
    for leaf in range(span.leaves):
        ids = span.samples(step - 1, leaf)
        for row, (dataset, sample) in enumerate(zip(ids.datasets, ids.samples, strict=True)):
            if dataset == own:
                for document in shelf.documents_of(int(sample)):
                    yield Sighting(step, leaf, row, int(sample), document, shelf.dataset, skipped)


def read_by(shelf: Shelf, ledger: Ledger, *, until_step: int) -> set[str]:
    """The documents of which a token was read in steps 1 to `until_step`."""
    seen = np.zeros(shelf.sequences, bool)
    for step in range(until_step):
        span = ledger.span_at(step)
        names: Sequence[str] = [share.dataset_version for share in span.datasets]
        if shelf.dataset not in names:
            continue
        own = names.index(shelf.dataset)
        for leaf in range(span.leaves):
            ids = span.samples(step, leaf)
            seen[ids.samples[ids.datasets == own]] = True
        if seen.all():
            break
    return {document for sample in np.flatnonzero(seen) for document in shelf.documents_of(int(sample))}
