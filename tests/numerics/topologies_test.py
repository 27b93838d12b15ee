"""Law 3 by real ranks: equal bits of the state and of every loss, for any number of ranks and across changes of it."""

from dataclasses import replace

import pytest

from .gang import Recipe, Trained, train

STEPS = 5


@pytest.fixture(scope="module", params=["untied", "tied"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return Recipe().tied() if request.param == "tied" else Recipe()


@pytest.fixture(scope="module")
def alone(recipe: Recipe) -> Trained:
    return train(recipe, 1, until=STEPS)


@pytest.mark.parametrize("dp", [2, 3, 4])
def test_any_number_of_ranks_gives_the_same_state_losses_and_evaluation(recipe: Recipe, alone: Trained, dp: int):
    spread = train(recipe, dp, until=STEPS)
    assert spread.losses == alone.losses
    assert spread.evaluation == alone.evaluation
    assert spread.checkpoint.root == alone.checkpoint.root


def test_a_run_continues_on_other_numbers_of_ranks(recipe: Recipe, alone: Trained):
    checkpoint = None
    for until, dp in ((1, 4), (2, 2), (3, 3), (5, 1)):
        continued = train(recipe, dp, until=until, since=checkpoint)
        checkpoint = continued.checkpoint
    assert continued.losses == alone.losses[3:]
    assert continued.checkpoint.root == alone.checkpoint.root


def test_leaves_that_ranks_do_not_divide_give_the_same_bits():
    recipe = replace(Recipe(), step=replace(Recipe().step, leaves=7)).tied()
    roots = {dp: train(recipe, dp, until=2).checkpoint.root for dp in (1, 2, 3, 5)}
    assert len(set(roots.values())) == 1


def test_control_another_number_of_leaves_is_another_run(recipe: Recipe, alone: Trained):
    fewer = replace(recipe, step=replace(recipe.step, leaves=6))
    assert train(fewer, 1, until=STEPS).checkpoint.root != alone.checkpoint.root
