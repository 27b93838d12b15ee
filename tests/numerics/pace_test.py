"""A straggler shows in the busy seconds that real ranks vote with, and nobody does in a clean run."""

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


def test_a_rank_that_takes_longer_for_a_leaf_is_named_and_a_clean_window_names_nobody() -> None:
    def work(rank: int, group: Group) -> list[Finding]:
        me = start(RECIPE, 3, rank, group)
        me.initialize()
        pace, findings = Pace(me.leaves_computed), list[Finding]()
        while len(findings) < 2:
            if findings and rank == 2 and me.scalars().step == findings[0].step:
                slow_down(me)
            step = me.scalars().step + 1
            busy = step_once(me, RECIPE, step).busy
            if me.audit(step) is None and (found := pace.add(step, busy)) is not None:
                findings.append(found)
        return findings

    of_ranks = on_ranks(3, work)
    clean, slow = of_ranks[0]
    assert all(findings == of_ranks[0] for findings in of_ranks)
    assert clean.stragglers == ()
    assert [each.rank for each in slow.stragglers] == [2]
    assert slow.step > clean.step + WINDOW  # audits are no part of a window
