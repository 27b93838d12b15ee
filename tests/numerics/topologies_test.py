"""Law 3 by real ranks: equal bits of every state and every loss, for any number of ranks and across changes of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scale import SOAK, scale
from tutti.model.chunks import Layout

from .gang import Recipe, Trained, train

STEPS = 5


@pytest.fixture(scope="module", params=["untied", "tied"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return Recipe().tied() if request.param == "tied" else Recipe()


@pytest.fixture(scope="module")
def alone(recipe: Recipe) -> Trained:
    return train(recipe, 1, until=STEPS)


@pytest.mark.parametrize("dp", range(2, 9 if SOAK else 5))
def test_any_number_of_ranks_gives_the_same_states_losses_and_evaluation(
    recipe: Recipe, alone: Trained, dp: int, record_property: Callable[[str, object], None]
) -> None:
    assert dp <= scale(test=4, soak=8)
    spread = train(recipe, dp, until=STEPS)
    assert spread.losses == alone.losses
    assert spread.curve == alone.curve
    assert spread.evaluation == alone.evaluation
    assert len(alone.digests) == STEPS
    assert spread.digests == alone.digests
    assert sum(spread.leaves) == recipe.step.leaves
    assert sum(spread.chunks) == len(Layout(recipe.model).chunks)
    counts = f"count of leaves a rank {spread.leaves}, of chunks a rank {spread.chunks}"
    record_property("said", f"dp {dp}: {counts}, of equal state digests {len(spread.digests)}")


def test_a_run_continues_on_other_numbers_of_ranks(recipe: Recipe, alone: Trained) -> None:
    digests, checkpoint = dict[int, str](), None
    for until, dp in ((1, 4), (2, 2), (3, 3), (5, 1)):
        continued = train(recipe, dp, until=until, since=checkpoint)
        checkpoint = continued.last
        digests |= continued.digests
    assert continued.losses == alone.losses[3:]
    assert digests == alone.digests


def test_leaves_that_ranks_do_not_divide_give_the_same_bits() -> None:
    recipe = replace(Recipe(), step=replace(Recipe().step, leaves=7)).tied()
    digests = [train(recipe, dp, until=2).digests for dp in (1, 2, 3, 5)]
    assert all(each == digests[0] for each in digests)


def test_control_another_number_of_leaves_is_another_run(recipe: Recipe, alone: Trained) -> None:
    fewer = train(replace(recipe, step=replace(recipe.step, leaves=6)), 1, until=1).last
    assert fewer.tensors != alone.checkpoints[1].tensors
