"""Which units share a platform, of all that are collected, whether it is their turn or not."""

import pytest

from tests.spreading import COLLECTED, SHARING, unit


def test_the_units_that_share_a_platform_are_those_whose_tests_use_it(pytestconfig: pytest.Config) -> None:
    using, collected = set[str](), set[str]()
    for item in pytestconfig.stash[COLLECTED]:
        assert isinstance(item, pytest.Function)
        collected.add(unit(item.nodeid))
        places = {fixture.func.__module__ for fixture in item._fixtureinfo.name2fixturedefs.get("served", ())}
        if "tests.e2e.conftest" in places and "served" in item.fixturenames:
            using.add(unit(item.nodeid))
    assert using == collected & set(SHARING)
