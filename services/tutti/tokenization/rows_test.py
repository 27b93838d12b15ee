"""Packing by best fit: nothing lost, nothing cut that need not be, and little wasted."""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.tokens.loader import Loader
from tutti.corpus.tokens.tokenshard import TokenShard
from tutti.records.canonical import keyed_bytes
from tutti.tokenization import rows
from tutti.tokenization.documents import Numbers, as_ids
from tutti.tokenization.rows import best_fit, fitted, windows
from tutti.tokenization.writing import Target, write_rows

EOS = 9
DOCUMENTS = st.lists(st.lists(st.integers(0, 8), max_size=14), min_size=1, max_size=14)


def written(documents: list[list[int]], folder: Path, *, context: int, per_shard: int) -> list[Path]:
    """Token shards of documents that are packed in their order."""
    ids = as_ids([keyed_bytes("test", str(k).encode()).hex() for k in range(len(documents))])
    target = Target(folder, "test", vocabulary=10, eos=EOS, sequences_per_shard=per_shard)
    arrays = (np.array(each, np.uint32) for each in documents)
    lengths = np.array([len(each) for each in documents])
    return [path for path, _ in write_rows(np.arange(len(ids)), lengths, ids, arrays, target, context=context)]


@pytest.mark.parametrize("window", [1, 20, rows.WINDOW_TOKENS])
@given(documents=DOCUMENTS, context=st.integers(1, 9), per_shard=st.integers(1, 5))
@settings(max_examples=40)
def test_each_token_of_each_document_is_a_target_once_and_none_is_cut_that_fits(
    window: int, documents: list[list[int]], context: int, per_shard: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "WINDOW_TOKENS", window)
        patch.setattr(rows, "LEAST_ROWS", 1)
        paths = written(documents, Path(folder), context=context, per_shard=per_shard)
        shards = [TokenShard(path) for path in paths]
        for shard in shards:
            shard.verify()
            assert shard.sequences <= per_shard
        for number, tokens in enumerate(documents):
            doc_id = keyed_bytes("test", str(number).encode()).hex()
            pieces = [shard.piece(k).tolist() for shard in shards for k in shard.places_of(doc_id)]
            whole = [EOS, *tokens, EOS]
            assert pieces[0] == whole if len(whole) <= context + 1 else len(pieces[0]) == context + 1
            assert sum((piece[1:] for piece in pieces), pieces[0][:1]) == whole
            assert all(before[-1] == after[0] for before, after in pairwise(pieces))
        loader = Loader(paths)
        batch = loader.batch(np.arange(loader.sequences))
        targets = batch.tokens[:, 1:][batch.valid]
        expected = [token for tokens in documents for token in (*tokens, EOS)]
        assert sorted(targets.tolist()) == sorted(expected)


def slow_best_fit(sizes: list[int], capacity: int) -> list[int]:
    """The rooms that are left."""
    rooms: list[int] = []
    for size in sorted(sizes, reverse=True):
        fits = [room for room in rooms if room >= size]
        if fits:
            rooms.remove(min(fits))
        rooms.append((min(fits) if fits else capacity) - size)
    return sorted(rooms)


def first_fit(sizes: list[int], capacity: int) -> int:
    """How many bins there are when items are put, as they come, where they first fit."""
    rooms: list[int] = []
    for size in sizes:
        place = next((k for k, room in enumerate(rooms) if room >= size), len(rooms))
        rooms[place:] = [(rooms[place] if place < len(rooms) else capacity) - size, *rooms[place + 1 :]]
    return len(rooms)


def fewest(sizes: tuple[int, ...], capacity: int) -> int:
    """As few bins as can be, by trying everything."""

    def search(at: int, rooms: tuple[int, ...]) -> int:
        if at == len(sizes):
            return len(rooms)
        found = search(at + 1, (*rooms, capacity - sizes[at]))
        for room in set(rooms):
            if room >= sizes[at]:
                place = rooms.index(room)
                found = min(found, search(at + 1, (*rooms[:place], room - sizes[at], *rooms[place + 1 :])))
        return found

    return search(0, ())


def rooms_of(sizes: Numbers, bins: Numbers, capacity: int) -> list[int]:
    taken = np.bincount(bins, weights=sizes).astype(np.int64)
    return sorted((capacity - taken).tolist())


@given(sizes=st.lists(st.integers(2, 12), min_size=1, max_size=60))
@settings(max_examples=100)
def test_items_are_put_where_a_slow_search_puts_them(sizes: list[int]) -> None:
    # Rooms of one place take nothing, so that it does not matter which of them is looked at.
    assert rooms_of(np.array(sizes), best_fit(np.array(sizes), 12), 12) == slow_best_fit(sizes, 12)


@given(sizes=st.lists(st.integers(2, 12), min_size=1, max_size=8))
@settings(max_examples=60)
def test_the_rows_are_at_most_eleven_ninths_of_the_fewest(sizes: list[int]) -> None:
    made = int(best_fit(np.array(sizes), 12).max()) + 1
    assert 9 * made <= 11 * fewest(tuple(sorted(sizes, reverse=True)), 12) + 6


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("context", [32, 256])
def test_less_is_wasted_than_by_first_fit_in_the_order_of_arrival(seed: int, context: int) -> None:
    lengths = np.random.default_rng(seed).lognormal(4.5, 1.0, 3000).astype(np.int64)
    made = fitted(lengths, context=context)
    whole, rest = np.divmod(lengths + 1, context)
    assert made.count <= int(whole.sum()) + first_fit((rest[rest > 0] + 1).tolist(), context + 1)
    assert made.lengths.max() <= context + 1


def test_windows_hold_every_document_once_and_about_so_many_tokens() -> None:
    lengths = np.array([3, 5 * rows.WINDOW_TOKENS, 0, *[rows.WINDOW_TOKENS // 2] * 5, 7])
    found = list(windows(lengths, context=8))
    assert [k for each in found for k in range(each.start, each.stop)] == list(range(len(lengths)))
    for each in found:
        assert lengths[each.start : each.stop - 1].sum() <= rows.WINDOW_TOKENS
