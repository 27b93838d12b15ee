"""What could not be done after a training is refused before it, by the recipe's key."""

from pathlib import Path

import pytest

from tutti.chassis.errors import InvalidField
from tutti.contracts.common.v1 import STATE_DONE, STATE_FAILED, STATE_PENDING, ListRequest
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, Run
from tutti.corpus.spans.building import MOST_TOKENS
from tutti.corpus.tokens.tokenizer_test import of_bytes
from tutti.pipeline.world_test import CALL, RECIPE, World

CONTEXT = 32
BEFORE = ("ingest", "filter", "dedup", "tokenization")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.artefact = of_bytes().artefact
    return made


def tokenized(world: World, *overrides: str) -> Run:
    """A run whose dataset is made."""
    name = world.create(f"data.context={CONTEXT}", *overrides).name
    world.finish(*BEFORE)
    return world.run(name)


def check(world: World, *overrides: str, all_problems: bool = False) -> list[str]:
    request = CheckRecipeRequest(
        recipe=RECIPE,
        overrides=(f"data.context={CONTEXT}", *overrides),
        directory=str(world.folder),
        all_problems=all_problems,
    )
    return [each.key for each in world.api.CheckRecipe(request, CALL).problems]


def test_a_prompt_that_fills_the_context_fails_the_run_before_it_trains(world: World) -> None:
    run = tokenized(world, f"sample.prompts=[The, {'x' * (CONTEXT + 8)}]")
    assert (run.state, run.stages[-2].state) == (STATE_FAILED, STATE_PENDING)
    assert run.reason == (
        "train: sample.prompts: expected at most 31 tokens, since data.context (32) must have room for one more; "
        "shorten it by at least 9, got 'prompt 1 of 40 tokens'"
    )
    assert not world.train.made


def test_a_prompt_that_leaves_room_for_one_token_is_continued(world: World) -> None:
    run = tokenized(world, f"sample.prompts=[{'x' * (CONTEXT - 1)}, '']", "index=true")
    world.finish("train", "index", "sample")
    assert world.run(run.name).state == STATE_DONE


def test_what_is_too_long_for_a_dataset_that_is_made_is_seen_when_the_recipe_is_checked(world: World) -> None:
    tokenized(world)
    with pytest.raises(InvalidField, match=r"^sample\.prompts: .*prompt 0 of 40 tokens"):
        check(world, f"sample.prompts={'x' * 40}")
    assert check(world, f"sample.prompts={'x' * 20}") == []


def test_a_prompt_that_no_tokenizer_makes_short_enough_is_refused_at_once(world: World) -> None:
    long, short = "x1" * 16, "x" * 1000
    assert check(world, f"sample.prompts={long}", all_problems=True) == ["sample.prompts"]
    with pytest.raises(InvalidField, match=r"sample\.prompts: .*prompt 0 of at least 32 tokens"):
        world.create(f"data.context={CONTEXT}", f"sample.prompts={long}")
    assert not world.api.ListRuns(ListRequest(), CALL).runs
    assert check(world, f"sample.prompts={short}") == []
    assert check(world, f"sample.prompts={long}", "tokenizer.pattern=.*") == []


def test_an_earlier_tokenizer_says_at_once_how_long_a_prompt_is(world: World) -> None:
    of = f"tokenizer.of={tokenized(world).name}"
    with pytest.raises(InvalidField, match=r"sample\.prompts: .*prompt 0 of 32 tokens"):
        check(world, of, f"sample.prompts={'x' * CONTEXT}")
    assert check(world, of, f"sample.prompts={'x' * (CONTEXT - 1)}") == []


def test_a_dataset_that_no_index_can_hold_fails_the_run_before_it_trains(world: World) -> None:
    world.tokens = MOST_TOKENS
    run = tokenized(world, "index=true")
    assert run.state == STATE_FAILED
    assert run.reason.startswith("train: index: expected false, or a dataset of fewer than 4,294,967,295 tokens")
    assert not world.train.made
    world.page("b.html", "two")
    tokenized(world)
    assert world.train.made, "without an index it trains"
