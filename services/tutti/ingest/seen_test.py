"""What came before is known, whatever part of it was put in order already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest import seen
from tutti.ingest.seen import Seen

HALVES = st.sampled_from(["0" * 16, "0" * 15 + "1", "f" * 16, "00ff" * 4, "ff00" * 4])
IDS = st.tuples(HALVES, HALVES).map("".join).map(lambda begin: begin + "0" * 32)


@given(ids=st.lists(IDS, max_size=60))
@pytest.mark.parametrize("together", [1, 3, 1000])
def test_an_id_is_new_once(together: int, ids: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen, "_TOGETHER", together)
        known = Seen()
        assert [known.add(each) for each in ids] == [each not in ids[:place] for place, each in enumerate(ids)]
