"""Parallel plans change where parameters are and no bit: ranks that keep their chunks alone train the same states."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.numerics.gang import Recipe, Trained, start, train
from tests.numerics.objectives_test import Preference, trained
from tutti.model.chunks import Layout
from tutti.model.plan import OPTIMIZER, PARAMETERS, Plan, Shape, ShapeError
from tutti.model.spec import RopeScaling, SpecError

STEPS = 4


@pytest.fixture(scope="module", params=["untied", "tied, with wide heads, biases and scaled positions"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    if request.param == "untied":
        return Recipe()
    wide = Recipe().tied()
    scaling = RopeScaling.of("yarn", 4, 16)
    return replace(wide, model=replace(wide.model, head_dim=32, qkv_bias=True, rope_scaling=scaling))


@pytest.fixture(scope="module")
def replicated(recipe: Recipe) -> Trained:
    return train(recipe, 1, until=STEPS)


@pytest.mark.parametrize("dp", [1, 2, 3, 4])
def test_ranks_with_their_own_chunks_alone_give_the_same_states_and_hold_less(
    recipe: Recipe, replicated: Trained, dp: int, record_property: Callable[[str, object], None]
) -> None:
    sharded = train(recipe, dp, until=STEPS, shard=PARAMETERS)
    assert sharded.digests == replicated.digests
    assert sharded.losses == replicated.losses
    assert sharded.evaluation == replicated.evaluation
    whole = 4 * Layout(recipe.model).elements
    assert replicated.parameter_bytes == [whole]
    if dp > 2:
        assert max(sharded.parameter_bytes) < whole
    assert sum(sharded.state_bytes) == 3 * whole
    held = f"parameters {sharded.parameter_bytes} of {whole} bytes, state {sharded.state_bytes}"
    record_property("said", f"dp {dp}: equal states of {STEPS} steps; each rank holds {held}")


def test_a_run_continues_under_another_plan(recipe: Recipe, replicated: Trained) -> None:
    digests, checkpoint = dict[int, str](), None
    for until, dp, shard in ((1, 2, PARAMETERS), (2, 3, OPTIMIZER), (3, 4, PARAMETERS), (4, 1, OPTIMIZER)):
        continued = train(recipe, dp, until=until, since=checkpoint, shard=shard)
        checkpoint = continued.last
        digests |= continued.digests
    assert digests == replicated.digests


def test_leaves_that_ranks_do_not_divide_give_the_same_bits() -> None:
    recipe = replace(Recipe(), step=replace(Recipe().step, leaves=7))
    assert train(recipe, 5, until=2, shard=PARAMETERS).digests == train(recipe, 1, until=2).digests


def test_another_objective_gives_the_same_state() -> None:
    assert trained(3, Preference(), shard=PARAMETERS) == trained(1, Preference())


def test_what_needs_all_parameters_on_a_rank_is_refused() -> None:
    with pytest.raises(SpecError, match="shard: parameters leaves no rank with all parameters"):
        _ = start(Recipe(), 1, 0, None, shard=PARAMETERS).parameters
    compiled = replace(Recipe(), step=replace(Recipe().step, compile=True))
    with pytest.raises(SpecError, match="does not work with compile: true"):
        start(compiled, 1, 0, None, shard=PARAMETERS)


def test_a_shape_that_shards_nothing_new_keeps_its_digest() -> None:
    assert "shard" not in Shape(2).to_dict()
    assert Shape(2, shard=PARAMETERS).shape_digest != Shape(2).shape_digest
    assert Shape.from_dict(Shape(2, shard=PARAMETERS).to_dict()) == Shape(2, shard=PARAMETERS)
    with pytest.raises(ShapeError, match=r"Shape\.shard is 'all'; expected optimizer or parameters"):
        Shape(2, shard="all")
    layout = Layout(Recipe().model)
    assert Plan(layout, Shape(2, shard=PARAMETERS), 8).chunks_of(1) == Plan(layout, Shape(2), 8).chunks_of(1)
