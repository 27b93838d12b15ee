"""Stages of a run: which are trainings, and with how many steps."""

from tutti.client.plain import Plain
from tutti.contracts.pipeline.v1 import Stage

JOBS = "jobs/"


def trains(stage: Stage) -> bool:
    """True if a stage of a run is a training that has begun."""
    return stage.resource.startswith(JOBS)


def steps(recipe: Plain) -> dict[str, int]:
    """The steps of each training of a recipe that was filled in, by the name of its stage.

    One that is given epochs is left out: its steps follow from the samples that there will be.
    """
    named = {name: each["steps"] for name, each in recipe.get("stages", {}).items() if "steps" in each}
    return {**({"train": recipe["train"]["steps"]} if "train" in recipe else {}), **named}
