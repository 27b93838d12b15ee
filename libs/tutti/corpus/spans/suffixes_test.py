"""The suffix array equals a sort of all suffixes, whatever the memory: down to a few records at once."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.corpus.spans.diskarray import DiskArray
from tutti.corpus.spans.suffixes import Suffixes


def in_order(folder: Path, tokens: list[int], *, vocabulary: int, eos: int, memory_bytes: int) -> list[int]:
    """By the class under test; it leaves nothing but the ranks and ends in its folder."""
    work = folder / str(memory_bytes)
    work.mkdir()
    with DiskArray(folder / "tokens", "<u4") as array:
        array.append(np.array(tokens))
        made = Suffixes(array, vocabulary=vocabulary, eos=eos, folder=work, memory_bytes=memory_bytes)
        found = [position for piece in made.sorted() for position in piece.tolist()]
    assert sorted(path.name for path in work.iterdir()) == ["ends", "ranks"]
    return found


def by_sorting(tokens: list[int], eos: int) -> list[int]:
    """By comparing all suffixes, each up to its end-of-text, then by position."""
    places = [at for at, token in enumerate(tokens) if token != eos]
    return sorted(places, key=lambda at: (tokens[at : tokens.index(eos, at)], at))


@given(
    documents=st.lists(st.lists(st.integers(1, 2) | st.integers(1, 8), max_size=40), max_size=12),
    copies=st.integers(0, 3), eos=st.sampled_from([0, 4, 9]), vocabulary=st.sampled_from([10, 1 << 16, 1 << 31]),
    memory_bytes=st.sampled_from([0, 1_000, 4_000, 100_000]),
)  # fmt: skip
@settings(max_examples=80)
def test_it_equals_a_sort_of_all_suffixes(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], copies: int, eos: int, vocabulary: int,
    memory_bytes: int,
) -> None:  # fmt: skip
    tokens = [eos]
    for document in documents + documents[:2] * copies:
        tokens += [*(token + (token >= eos > 0) for token in document), eos]
    found = in_order(
        tmp_path_factory.mktemp("suffixes"), tokens, vocabulary=vocabulary, eos=eos, memory_bytes=memory_bytes
    )
    assert found == by_sorting(tokens, eos)


def test_the_largest_ids_keep_their_order(tmp_path: Path) -> None:
    most = (1 << 32) - 2
    tokens = [most, 1, most, most, most - 1, most, 0, most, 0]
    assert in_order(tmp_path, tokens, vocabulary=most + 1, eos=0, memory_bytes=0) == by_sorting(tokens, 0)
