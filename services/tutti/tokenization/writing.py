"""Writing: a stream of tokens, as a layout says, or rows of pieces into token shards.

Memory holds a few documents, or a window of them, whatever the size of a shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tutti.corpus.tokens.tokenshard import ShardShape, TokenShardInfo, TokenShardWriter
from tutti.native.arrays import np
from tutti.tokenization.documents import Ids, Numbers
from tutti.tokenization.packing import Layout, cuts
from tutti.tokenization.rows import Rows, fitted, windows
from tutti.tokenization.spool import Tokens

TOGETHER = 1 << 18


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of shards, and their common properties; files are named by `name`."""

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


def write_rows(
    order: Numbers, lengths: Numbers, ids: Ids, documents: Iterable[Tokens], target: Target, *, context: int
) -> Iterator[tuple[Path, TokenShardInfo]]:
    """Fit documents into rows and write these; documents come in `order` and have so many tokens; `ids` by numbers."""
    coming, shard, number, first = iter(documents), None, 0, 0
    for window in windows(lengths, context=context):
        rows = fitted(lengths[window], context=context)
        tokens = _filled(rows, list(islice(coming, window.stop - window.start)), target.eos, context)
        names, done = ids[order[window]][rows.documents], 0
        while done < rows.count:
            shard = shard or _RowShard(target, number, first, context)
            end = min(rows.count, done + target.sequences_per_shard - shard.sequences)
            shard.add(rows, tokens, names, done, end)
            done = end
            if shard.sequences == target.sequences_per_shard:
                yield shard.finish()
                number, first, shard = number + 1, first + shard.sequences, None
    if shard:
        yield shard.finish()


class _RowShard:
    """A shard of rows while it is written: tokens are in the file, memory holds where pieces begin, and their ids."""

    def __init__(self, target: Target, number: int, first_sample: int, context: int) -> None:
        self._path, self._width = target.folder / f"{target.name}-{number}.bin", context + 1
        self._file = self._path.open("w+b")
        shape = ShardShape(context, target.vocabulary, target.eos, first_sample, packed=True)
        self._writer = TokenShardWriter(self._file, shape)
        self._starts, self._ids, self._lengths = list[Numbers](), list[Ids](), list[Numbers]()
        self.sequences = 0

    def add(self, rows: Rows, tokens: Tokens, names: Ids, low: int, high: int) -> None:
        """Write rows `low` to `high` of a window: their tokens [count, context + 1], and the id of each piece."""
        cut = slice(*np.searchsorted(rows.rows, [low, high]).tolist())
        self._starts.append((self.sequences - low + rows.rows[cut]) * self._width + rows.columns[cut])
        self._ids.append(names[cut])
        self._lengths.append(rows.lengths[low:high])
        self._writer.append(tokens[low:high].reshape(-1))
        self.sequences += high - low

    def finish(self) -> tuple[Path, TokenShardInfo]:
        lengths = np.concatenate(self._lengths)
        with self._file:
            return self._path, self._writer.finish(
                tokens_used=int(lengths.sum()),
                starts=np.concatenate(self._starts),
                doc_ids=np.concatenate(self._ids),
                lengths=lengths,
            )


def _filled(rows: Rows, documents: Sequence[Tokens], eos: int, context: int) -> Tokens:
    """Rows [count, context + 1]: what no piece takes up is `eos`."""
    end = np.array([eos], np.uint32)
    text = np.concatenate([part for ids in documents for part in (end, ids, end)])
    taken = np.array([len(ids) + 2 for ids in documents])
    begins = (np.cumsum(taken) - taken)[rows.documents] + rows.begins
    found = np.full((rows.count, context + 1), eos, np.uint32)
    flat, places = found.reshape(-1), rows.rows * (context + 1) + rows.columns
    for place, begin, size in zip(places.tolist(), begins.tolist(), rows.sizes.tolist(), strict=True):
        flat[place : place + size] = text[begin : begin + size]
    return found
