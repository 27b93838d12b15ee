"""What can be said of pairs, and what a row says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pairs import Pairs, alternate, bootstrap, percentile, timed
from benchmarks.table import HEADER, Row, at_most, cells, ratio_at_least, ratio_at_most, render

seconds = st.floats(min_value=1e-6, max_value=1e6)


def test_turns_alternate_and_warm_ups_are_not_kept() -> None:
    order: list[str] = []

    def turn(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = alternate(lambda: turn("a"), lambda: turn("b"), pairs=2, warmups=1, rest=0)
    assert order == ["a", "b"] * 3
    assert found == Pairs(ours=(3, 5), peer=(4, 6))


def test_fewer_than_one_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        alternate(lambda: 1.0, lambda: 1.0, pairs=0)


def test_turns_without_their_partner_are_refused() -> None:
    with pytest.raises(ValueError, match="2 turns of ours and 1 of the peer"):
        Pairs((1, 2), (1,))


def test_cost_and_speed_are_medians_of_ratios_of_pairs() -> None:
    found = Pairs(ours=(2, 30, 4), peer=(1, 10, 4))
    assert found.cost().median == 2
    assert found.speed().median == 0.5


def test_what_slows_both_of_a_pair_does_not_change_the_ratio() -> None:
    """The reason for pairs: each turn meets another load, and the ratio is still exact."""
    loads = [1.0, 7.0, 0.5, 40.0, 3.0]
    found = Pairs(ours=tuple(3 * load for load in loads), peer=tuple(2 * load for load in loads)).cost()
    assert (found.low, found.median, found.high) == pytest.approx((1.5, 1.5, 1.5))


@given(st.lists(seconds, min_size=1, max_size=40))
def test_an_interval_holds_its_median_and_lies_within_the_values(values: list[float]) -> None:
    found = bootstrap(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    assert found == bootstrap(values)


@given(st.lists(seconds, min_size=2, max_size=40), st.floats(min_value=0.01, max_value=100))
def test_scaled_values_scale_the_interval(values: list[float], factor: float) -> None:
    one, other = bootstrap(values), bootstrap([factor * value for value in values])
    assert (other.low, other.median, other.high) == pytest.approx(
        (factor * one.low, factor * one.median, factor * one.high)
    )


def test_more_values_narrow_the_interval() -> None:
    few, many = bootstrap([1.0, 2.0, 3.0] * 3), bootstrap([1.0, 2.0, 3.0] * 100)
    assert many.high - many.low < few.high - few.low


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap([])


def test_a_turn_is_timed_by_the_clock_that_was_given() -> None:
    ticks = iter([10.0, 12.5])
    assert timed(lambda: None, lambda: next(ticks))() == 2.5


def test_the_worst_of_values_is_their_last_percentile() -> None:
    assert percentile([3.0, 1.0, 2.0], 100) == 3.0


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("x", ours=7.0, goal=at_most(8)), True),
        (Row("x", ours=8.1, goal=at_most(8)), False),
        (Row("x", ours=7.0), None),
        (Row("x", goal=at_most(8), note="skipped: no Java"), None),
        (Row("x", ours=7.0, goal=ratio_at_least(0.5)), None),
        (Row("x", ratio=bootstrap([0.5]), goal=ratio_at_least(0.5)), True),
        (Row("x", ratio=bootstrap([0.49]), goal=ratio_at_least(0.5)), False),
        (Row("x", ratio=bootstrap([1.6]), goal=ratio_at_most(1.5)), False),
    ],
)
def test_a_goal_is_met_or_missed_by_what_it_is_of(row: Row, met: bool | None) -> None:
    assert row.met is met


def test_a_missed_goal_and_one_that_was_not_measured_read_so() -> None:
    missed, skipped = Row("x", "s", 9.0, goal=at_most(8)), Row("x", "s", goal=at_most(8))
    assert cells(missed) == ("x", "9 s", "", "", "ours ≤ 8 s", "NO")
    assert cells(skipped)[-1] == "not measured"


def test_a_row_survives_json() -> None:
    row = Row("x", "ms", 1.5, 1.0, bootstrap([1.0, 1.5, 2.0]), ratio_at_most(2), "how")
    told = json.loads(json.dumps(row.to_json()))
    assert Row.from_json(told) == row
    assert told["met"] is True
    assert Row.from_json(json.loads(json.dumps(Row("y").to_json()))) == Row("y")


def test_a_table_has_a_line_a_row_and_the_notes_below() -> None:
    lines = render([Row("one", "ms", 1.0, note="so"), Row("two", "ms", 2000.0)]).splitlines()
    assert [line.split("  ")[0] for line in (lines[0], *lines[2:4])] == [HEADER[0], "one", "two"]
    assert "2,000 ms" in lines[3]
    assert lines[-1] == "  one: so"
