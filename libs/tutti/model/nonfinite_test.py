"""A skip is confirmed by a neighbour that gets the same bits; else somebody computes wrongly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.model.nonfinite import NONE, Examined, Witnessed, judge, neighbour, words
from tutti.model.results import Finding

SOUND, BAD = Examined(NONE, 0, contradicts=False), Examined(3, 77, contradicts=False)
IDLE, SAME = Witnessed(0, finite=True), Witnessed(77, finite=False)


def ring(ranks: int, bad: dict[int, Witnessed], *, own: Examined = BAD) -> Finding:
    """The verdict where these ranks have a leaf that is not finite, and their neighbours got this."""
    by_witness = {neighbour(rank, ranks): seen for rank, seen in bad.items()}
    return judge(
        [own if rank in bad else SOUND for rank in range(ranks)], [by_witness.get(rank, IDLE) for rank in range(ranks)]
    )


@given(st.integers(1, 9), st.data())
def test_leaves_that_the_neighbours_confirm_convict_nobody(ranks: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, ranks - 1)))
    assert not ring(ranks, dict.fromkeys(bad, SAME))


@given(st.integers(1, 9), st.data())
def test_a_rank_whose_leaf_is_finite_on_its_neighbour_is_convicted_alone(ranks: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(0, ranks - 1))
    assert ring(ranks, {guilty: Witnessed(5, finite=True)}) == Finding(convicted=(guilty,))


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_other_bits_make_both_suspects(ranks: int) -> None:
    found = ring(ranks, {ranks - 1: Witnessed(78, finite=False)})
    assert found == Finding(disagreements=((ranks - 1, 0),))


def test_a_rank_that_contradicts_itself_is_convicted() -> None:
    assert ring(1, {0: Witnessed(78, finite=False)}) == Finding(convicted=(0,))
    assert ring(3, {1: SAME}, own=Examined(3, 77, contradicts=True)) == Finding(convicted=(1,))
    assert judge([SOUND, Examined(NONE, 0, contradicts=True)], [IDLE, IDLE]) == Finding(convicted=(1,))


def test_the_words_name_each_rank_with_what_was_seen() -> None:
    seen = words([SOUND, BAD, Examined(NONE, 0, contradicts=True)])
    assert len(seen) == 2
    assert all(part in seen[0] for part in ("rank 1", "leaf 3"))
    assert "rank 2" in seen[1]
