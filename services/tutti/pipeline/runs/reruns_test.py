"""What is carried out again after a retraction, and after what."""

import json
from typing import Any

from tutti.contracts.lineage.v1 import ReachedDataset, ReachedRun
from tutti.contracts.pipeline.v1 import PlanRerunsRequest, RerunEffect, Run, RunSpec, Stage
from tutti.pipeline.runs.reruns import AGAIN, PERHAPS, REUSED, changes, families, taken, taker_plan, takes

REACH = PlanRerunsRequest(
    datasets=[
        ReachedDataset(dataset="datasets/a", tokenizer="tokenizers/a", train=1),
        ReachedDataset(dataset="datasets/held-out", validation=1),
    ]
)
DROPPED = PlanRerunsRequest(runs=[ReachedRun(run="runs/a", duplicates=1)])


def run(name: str, makes: str, *mixes: str, of: str = "", against: str = "", origin: str = "") -> Run:
    recipe: dict[str, Any] = {"tokenizer": {"of": of} if of else {}, "train": {"steps": 7}}
    recipe["dedup"] = {"against": [against] if against else []}
    if mixes:
        recipe["mixture"] = {"datasets": dict.fromkeys(mixes, 1)}
    stages = [Stage(name="filter"), Stage(name="dedup"), Stage(name="tokenization", content_digest=f"blake3:{makes}")]
    spec = RunSpec(recipe=json.dumps(recipe), recipe_digest=f"of {name}", origin=origin)
    return Run(name=f"runs/{name}", spec=spec, stages=[*stages, Stage(name="train")])


def takers(every: list[Run], reach: PlanRerunsRequest, **others: str) -> dict[str, tuple[RerunEffect.ValueType, ...]]:
    """What becomes of dedup, tokenization and training of the runs that take what may change.

    A dataset's tokenizer is named as the dataset is, or as `others` say.
    """
    trained = {f"datasets/{each}": f"tokenizers/{others.get(each, each)}" for each in "abcde"}
    changed = changes(every, reach, trained)
    words = {each.name: taken(each, changed) for each in every}
    return {name: (each["dedup"], each["tokenization"], each["train"]) for name, each in words.items() if takes(each)}


def test_who_takes_a_dataset_or_tokenizer_with_the_page_is_found_through_others() -> None:
    every = [
        run("a", "a"),
        run("b", "b", of="tokenizers/a"),
        run("mixes-a", "c", "datasets/a", of="tokenizers/other"),
        run("mixes-b", "d", "datasets/b", of="tokenizers/other"),
        run("mixes-none", "e", "datasets/held-out", of="tokenizers/other"),
    ]
    assert takers(every, REACH) == {
        "runs/b": (REUSED, AGAIN, AGAIN),
        "runs/mixes-a": (REUSED, REUSED, AGAIN),
        "runs/mixes-b": (REUSED, REUSED, AGAIN),
    }


def test_who_is_compared_with_a_dataset_with_the_page_may_change_and_so_may_who_takes_of_it() -> None:
    every = [
        run("b", "b", against="datasets/a"),
        run("c", "c", of="tokenizers/b"),
        run("mixes-c", "d", "datasets/c", of="tokenizers/other"),
        run("after-held-out", "e", against="datasets/held-out"),
        run("after-other", "f", against="datasets/other"),
    ]
    assert takers(every, REACH) == {
        "runs/b": (PERHAPS, PERHAPS, PERHAPS),
        "runs/c": (REUSED, PERHAPS, PERHAPS),
        "runs/mixes-c": (REUSED, REUSED, PERHAPS),
        "runs/after-held-out": (PERHAPS, PERHAPS, PERHAPS),
    }


def test_a_dataset_from_which_the_page_was_dropped_may_change_until_it_came_out_the_same() -> None:
    every = [run("a", "a"), run("b", "b", against="datasets/a")]
    assert takers(every, DROPPED) == {"runs/b": (PERHAPS, PERHAPS, PERHAPS)}
    assert takers([*every, run("a-again", "a", origin="of a")], DROPPED) == {}
    assert takers([*every, run("a-again", "c", origin="of a")], DROPPED).keys() == {"runs/b"}


def test_who_takes_a_tokenizer_that_came_out_the_same_is_done_once_it_takes_the_dataset_that_did_not() -> None:
    """As where another page says the same: the dataset holds that one then, the tokenizer learnt from equal text."""
    every = [
        run("a", "a"),
        run("b", "b", of="tokenizers/a"),
        run("mixes-a", "c", "datasets/a", of="tokenizers/a"),
        run("mixes-b", "d", "datasets/b", of="tokenizers/a"),
    ]
    assert takers(every, REACH).keys() == {"runs/b", "runs/mixes-a", "runs/mixes-b"}
    again = [*every, run("a-again", "e", origin="of a")]
    assert takers(again, REACH, e="a") == {"runs/mixes-a": (REUSED, REUSED, AGAIN)}
    assert takers(again, REACH).keys() == {"runs/b", "runs/mixes-a", "runs/mixes-b"}
    done = [*again, run("mixes-a-again", "c", "datasets/e", of="tokenizers/a", origin="of mixes-a")]
    assert takers(done, REACH, e="a").keys() == {"runs/mixes-a"}, "and no longer the newest of its recipe"


def test_who_takes_of_what_came_out_the_same_through_others_is_done() -> None:
    every = [run("a", "a"), run("b", "b", of="tokenizers/a"), run("mixes-b", "c", "datasets/b", of="tokenizers/a")]
    assert takers(every, DROPPED).keys() == {"runs/b", "runs/mixes-b"}
    assert takers([*every, run("a-again", "a", origin="of a")], DROPPED) == {}


def test_who_is_compared_with_what_was_made_again_is_done() -> None:
    every = [run("a", "a"), run("a-again", "c", origin="of a"), run("b", "b", against="datasets/c")]
    assert takers(every, REACH) == {}


def test_runs_are_told_by_recipe_after_those_that_they_take_of() -> None:
    every = [run("b", "b"), run("a", "a"), run("b-again", "c", origin="of b")]
    assert [[each.name for each in runs] for runs in families(every)] == [["runs/b", "runs/b-again"], ["runs/a"]]


def test_it_is_carried_out_again_after_those_that_it_takes_of() -> None:
    compared = run("b", "b", against="datasets/a")
    words = taken(compared, {"datasets/a": AGAIN})
    plan = taker_plan(compared, words, None)
    assert (plan.run, plan.needed, plan.after_all, plan.steps) == ("runs/b", True, True, 7)
    assert [(stage.name, stage.effect) for stage in plan.stages] == [
        ("filter", REUSED),
        ("dedup", PERHAPS),
        ("tokenization", PERHAPS),
        ("train", PERHAPS),
    ]
    read = taker_plan(compared, words, ReachedRun(run="runs/b", duplicates=1)).stages
    assert [stage.effect for stage in read] == [AGAIN, AGAIN, AGAIN, PERHAPS]
