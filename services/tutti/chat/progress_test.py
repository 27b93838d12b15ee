"""A completion is the same however its events arrive: late, twice, or from several replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.chat.progress import Gap, Progress
from tutti.chat.tokens import Event
from tutti.inference.engine import Chosen, Ended, Join
from tutti.inference.limits import Limits, Stop
from tutti.inference.sampling import Sampling

REQUEST = Join("a", 0, (1, 2), Sampling(), Limits(100, 0, 300))
TOKENS = [Chosen("a", at, 10 + at, -0.5 * at) for at in range(12)]
WHOLE: list[Event] = [*TOKENS, Ended("a", Stop.TOKENS)]


@given(st.data())
def test_events_that_come_again_or_late_change_nothing(data: st.DataObject) -> None:
    progress, found = Progress(REQUEST), list[Event]()
    while not progress.ended:
        begin = data.draw(st.integers(0, progress.count))  # a replica that continues, or repeats tokens
        end = data.draw(st.integers(begin, len(WHOLE)))
        found += progress.take(WHOLE[begin:end])
        known = [each.token for each in found if isinstance(each, Chosen)]
        assert progress.onward().given == tuple(known)
        if end == begin:
            found += progress.take(WHOLE[progress.count :])
    assert found == WHOLE
    assert list(progress.take(WHOLE)) == []


def test_tokens_that_were_left_out_are_a_fault() -> None:
    progress = Progress(REQUEST)
    events = progress.take([*TOKENS[:3], *TOKENS[4:]])
    assert [next(events) for _ in range(3)] == TOKENS[:3]  # those before the gap are not lost
    with pytest.raises(Gap):
        next(events)
    assert progress.onward().given == (10, 11, 12)


def test_tokens_that_were_given_are_part_of_the_completion() -> None:
    progress = Progress(Join("a", 0, (1, 2), Sampling(), Limits(100, 0, 300), given=(10, 11)))
    assert list(progress.take(TOKENS)) == TOKENS[2:]
    assert progress.onward().given == tuple(each.token for each in TOKENS)
