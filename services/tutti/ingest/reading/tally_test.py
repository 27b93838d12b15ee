"""A tally counts as a Counter does, whatever part of it was put in order already."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.reading import tally
from tutti.ingest.reading.tally import Tally

HALVES = st.sampled_from([bytes(8), bytes(7) + b"\1", b"\xff" * 8, b"\0\xff" * 4, b"\xff\0" * 4])
KEYS = st.tuples(HALVES, HALVES).map(b"".join)


@given(came=st.lists(st.tuples(KEYS, st.integers(1, 3)), max_size=60))
@pytest.mark.parametrize("together", [1, 3, 1000])
def test_it_counts_every_key(together: int, came: list[tuple[bytes, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tally, "_TOGETHER", together)
        found, expected = Tally(), Counter[bytes]()
        for key, times in came:
            expected[key] += times
            assert found.add(key, times) == found[key] == expected[key]
        assert sorted(found.items()) == sorted(expected.items())
        assert found[b"another key only"] == 0
