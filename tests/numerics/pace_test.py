"""A straggler shows in the busy seconds that real ranks vote with."""

import time
from dataclasses import replace

from tutti.model.pace import WINDOW, Finding, Pace
from tutti.model.step import RankStep

from .gang import STEP, Group, Recipe, on_ranks, start, step_once

RECIPE = Recipe(step=replace(STEP, leaves=4), audit_every=10)
"""Four leaves of three ranks: rank 0 computes two."""
MORE_SECONDS = 0.3


def slow_down(me: RankStep) -> None:
    """The machine of this rank takes longer for every leaf."""
    add_leaf = me._gradients.add_leaf

    def slowly(*given):  # type: ignore[no-untyped-def]
        time.sleep(MORE_SECONDS)
        return add_leaf(*given)

    me._gradients.add_leaf = slowly  # type: ignore[method-assign]


def test_a_rank_that_takes_longer_for_a_leaf_is_named_by_all() -> None:
    def work(rank: int, group: Group) -> Finding:
        me = start(RECIPE, 3, rank, group)
        me.initialize()
        if rank == 2:
            slow_down(me)
        pace = Pace(me.leaves_computed)
        while True:
            step = me.scalars().step + 1
            busy = step_once(me, RECIPE, step).busy
            if me.audit(step) is None and (found := pace.add(step, busy)) is not None:
                return found

    found = on_ranks(3, work)
    assert all(each == found[0] for each in found)
    assert [each.rank for each in found[0].stragglers] == [2]
    assert found[0].step > WINDOW  # audits are no part of a window
