"""Rounds of judgements with a policy between them: what is made anew after somebody was retracted in one of them.

The keys of stages decide what is reused; they are derived here from the recipes alone, over synthetic results.
"""

import copy
from typing import Any

import yaml
from tools import reference

from tutti.records.canonical import bytes_digest

FIRST = {
    "prompts", "demonstrations", "tuned", "answers", "judged", "preferences", "reward", "grpo",
}  # fmt: skip
SECOND = ("answers-2", "judged-2", "preferences-2", "reward-2", "grpo-2")
POLICY = "checkpoints/first/0/60"


def two_rounds(policy: str, initial: str) -> str:
    """The recipe of the assistant up to its first policy, and a round of judgements of what `policy` answers."""
    recipe: dict[str, Any] = yaml.safe_load((reference.RECIPES / "assistant.yaml").read_text())
    stages = {name: recipe["stages"][name] for name in recipe["stages"] if name in FIRST}
    for name in SECOND:
        stages[name] = copy.deepcopy(stages[name.removesuffix("-2")])
    stages["answers-2"]["from"] = {"checkpoint": policy, "prompts": "prompts.campaign"}
    stages["judged-2"]["from"] = "answers-2"
    stages["preferences-2"]["from"] = "judged-2"
    stages["reward-2"]["from"] = {"initial": "tuned", "preferences": "preferences-2"}
    stages["grpo-2"]["from"] = {"initial": initial, "prompts": "prompts.train", "reward": "reward-2"}
    return yaml.safe_dump({**recipe, "stages": stages})


def made_anew(text: str, *retracted: str) -> set[str]:
    """The stages whose key differs once the campaigns `retracted` have other judgements."""
    keys = [
        {each["stage"]: each["reuse_key"] for each in reference.entry(reference.Case(text), contents)["stages"]}
        for contents in ({}, {name: bytes_digest(b"without one of them") for name in retracted})
    ]
    return {name for name, key in keys[0].items() if keys[1][name] != key}


def test_a_retraction_in_the_last_round_makes_only_what_follows_from_it_anew() -> None:
    assert made_anew(two_rounds("grpo", "grpo"), "judged-2") == {"preferences-2", "reward-2", "grpo-2"}


def test_a_retraction_in_the_first_round_of_one_recipe_asks_for_the_second_round_again() -> None:
    expected = {"preferences", "reward", "grpo", *SECOND}
    assert made_anew(two_rounds("grpo", "grpo"), "judged") == expected


def test_where_the_first_policy_is_named_the_judgements_of_its_answers_stay() -> None:
    assert made_anew(two_rounds(POLICY, "tuned"), "judged") == {"preferences", "reward", "grpo"}


def test_control_without_a_retraction_nothing_is_made_anew() -> None:
    assert made_anew(two_rounds("grpo", "grpo")) == set()
