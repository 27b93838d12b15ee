"""Tries of a gate: each set of judgements counts once, and trying again makes the bound wider."""

from collections.abc import Iterator

import pytest

from tutti.chassis.service import Host, Service
from tutti.chassis.store.unit import Unit
from tutti.evaluation.tries import Tries, Try
from tutti.simulation import Simulation

HELD: list[Tries] = []


def build(host: Host) -> Service:
    HELD.append(Tries(host.metadata))
    return Service(name="evaluation", resources=[], tables=[HELD[-1].table])


@pytest.fixture
def world() -> Iterator[Simulation]:
    with Simulation(0, builds={"evaluation": build}, rates={}) as simulation:
        yield simulation


def test_the_same_judgements_are_one_try_and_other_ones_another(world: Simulation) -> None:
    asked = [("a", "one"), ("a", "two"), ("a", "one"), ("b", "one"), ("a", "three")]

    def tried(unit: Unit) -> list[int]:
        return [HELD[-1].of(unit, "candidate", baseline, judged).number for baseline, judged in asked]

    assert world.peek("evaluation", tried) == [1, 2, 1, 1, 3]


def test_the_levels_of_all_tries_add_up_to_less_than_that_of_one_look() -> None:
    assert [round(Try(k).level * k * (k + 1), 9) for k in (1, 2, 30)] == [0.05] * 3
    assert sum(Try(k).level for k in range(1, 1000)) < 0.05


def test_a_later_try_needs_a_clearer_win() -> None:
    lows = [Try(k).low(0.6, 0.55, 40) for k in (1, 2, 3, 10)]
    assert 0.55 > lows[0] > lows[1] > lows[2] > lows[3] > 0
    assert Try(1).low(0.9, 0.0, 1) == 0.0


def test_a_comparison_of_an_earlier_version_which_does_not_say_its_clusters_has_the_widest_bound() -> None:
    assert 0 < Try(1).low(0.9, 0.8, 0) == Try(1).low(0.9, 0.8, 2) < Try(1).low(0.9, 0.8, 3)
