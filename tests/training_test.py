"""The mark `trains`: given to tests that reach a training through fixtures, helpers, classes and parameters."""

from pathlib import Path

import pytest

from tests.e2e.command import tiny, tutti
from tests.numerics import gang
from tests.training import parts, trains
from tutti.model.schedule import learning_rate
from tutti.model.step import RankStep


class Helper:
    @property
    def step(self) -> type[RankStep]:
        return RankStep


class Heir(Helper):
    pass


def by_step() -> object:
    return [RankStep for _ in range(1)]


def by_helper() -> object:
    return by_step()


def by_module() -> object:
    return gang.train


def by_property() -> object:
    return Heir().step


def by_recipe() -> object:
    return tiny(Path(), Path())


def by_command() -> object:
    return tutti("run", "a.yaml")


def another_command() -> object:
    return tutti("runs", "ls")


def without() -> object:
    return learning_rate


@pytest.mark.parametrize("reaches", [by_step, by_helper, by_module, by_property, by_recipe, by_command])
def test_what_reaches_a_step_or_starts_a_run_trains(reaches: object) -> None:
    assert trains(reaches, {})
    assert trains({"a": (reaches,)}, {})


@pytest.mark.parametrize("reaches", [another_command, without])
def test_what_does_neither_does_not(reaches: object) -> None:
    assert not trains(reaches, {})


@pytest.fixture
def trained() -> object:
    return by_step()


def test_a_test_trains_if_its_fixture_does(trained: object, request: pytest.FixtureRequest) -> None:
    assert any(trains(each, {}) for each in parts(request.node))
