"""What is carried out again after a retraction, and after what."""

import json

from tutti.cli.retractions import AGAIN, EVERY, REUSED, families, taker_plan, takers
from tutti.contracts.lineage.v1 import Reach, ReachedDataset
from tutti.contracts.pipeline.v1 import Run, RunSpec, Stage

REACH = Reach(
    datasets=[
        ReachedDataset(dataset="datasets/a", tokenizer="tokenizers/a", train=1),
        ReachedDataset(dataset="datasets/held-out", validation=1),
    ]
)


def run(name: str, makes: str, *mixes: str, of: str = "", origin: str = "") -> Run:
    recipe = {"tokenizer": {"of": of} if of else {}, "train": {"steps": 7}}
    if mixes:
        recipe["mixture"] = {"datasets": dict.fromkeys(mixes, 1)}
    stages = [Stage(name="dedup"), Stage(name="tokenization", content_digest=f"blake3:{makes}"), Stage(name="train")]
    spec = RunSpec(recipe=json.dumps(recipe), recipe_digest=f"of {name}", origin=origin)
    return Run(name=f"runs/{name}", spec=spec, stages=stages)


def test_who_takes_a_dataset_or_tokenizer_with_the_page_is_found_through_others() -> None:
    every = [
        run("a", "a"),
        run("b", "b", of="tokenizers/a"),
        run("mixes-a", "c", "datasets/a", of="tokenizers/other"),
        run("mixes-b", "d", "datasets/b", of="tokenizers/other"),
        run("mixes-none", "e", "datasets/held-out", of="tokenizers/other"),
    ]
    assert takers(every, REACH) == {"runs/b": True, "runs/mixes-a": False, "runs/mixes-b": False}


def test_a_run_that_carries_another_out_again_is_of_its_family() -> None:
    every = [run("a", "a"), run("b", "b"), run("a-again", "c", origin="of a")]
    assert [[each.name for each in runs] for runs in families(every)] == [["runs/a", "runs/a-again"], ["runs/b"]]


def test_it_is_carried_out_again_after_those_that_it_takes_of() -> None:
    plan = taker_plan(run("b", "b"), tokenizer=False, read=False)
    assert (plan["command"], plan["after"], plan["steps"]) == ("tutti runs again runs/b", EVERY, 7)
    assert {stage["name"]: stage["what"] for stage in plan["stages"]} == {
        "dedup": REUSED,
        "tokenization": REUSED,
        "train": AGAIN,
    }
    anew = taker_plan(run("b", "b"), tokenizer=True, read=False)["stages"]
    assert [stage["what"] for stage in anew] == [REUSED, AGAIN, AGAIN]
