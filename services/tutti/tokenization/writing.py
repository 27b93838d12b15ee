"""Writing: a stream of tokens, as a layout says, into token shards.

Memory holds a few documents, whatever the size of a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutti.corpus.tokenshard import ShardShape, TokenShardInfo, TokenShardWriter
from tutti.tokenization.documents import Ids
from tutti.tokenization.packing import Layout, cuts
from tutti.tokenization.spool import Tokens

TOGETHER = 1 << 18


@dataclass(frozen=True, slots=True)
class Target:
    """Where shards go and what they share; files are named by `name`."""

    folder: Path
    name: str
    vocabulary: int
    eos: int
    sequences_per_shard: int


def write_shards(
    layout: Layout, ids: Ids, documents: Iterable[Tokens], target: Target
) -> Iterator[tuple[Path, TokenShardInfo]]:
    """Write the tokens of documents, which come in the order of the layout; `ids` by their numbers."""
    chunks = _together(_stream(layout, documents, target.eos))
    held = np.zeros(0, np.uint32)
    for number, cut in enumerate(cuts(layout, sequences_per_shard=target.sequences_per_shard)):
        path = target.folder / f"{target.name}-{number}.bin"
        with path.open("w+b") as file:
            writer = TokenShardWriter(file, ShardShape(layout.context, target.vocabulary, target.eos, cut.first_sample))
            missing = cut.sequences * layout.context + 1
            while missing:
                if not len(held):
                    held = next(chunks)
                part, held = held[:missing], held[missing:]
                writer.append(part)
                missing -= len(part)
            names = ids[layout.documents[cut.low : cut.high]]
            yield path, writer.finish(tokens_used=cut.tokens_used, starts=cut.starts, doc_ids=names)
        held = np.concatenate([part[-1:], held])  # neighbours share a token


def _stream(layout: Layout, documents: Iterable[Tokens], eos: int) -> Iterator[Tokens]:
    """All tokens of the stream: what no document takes up is `eos`."""
    at = 0
    for begin, ids in zip(layout.begins.tolist(), documents, strict=True):
        yield np.full(begin - at, eos, ids.dtype)
        yield ids
        at = begin + len(ids)
    yield np.full(layout.tokens - at, eos, np.uint32)


def _together(parts: Iterator[Tokens]) -> Iterator[Tokens]:
    """The same in larger pieces; none of them is empty."""
    held: list[Tokens] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= TOGETHER:
            yield np.concatenate(held)
            held, size = [], 0
    if size:
        yield np.concatenate(held)
