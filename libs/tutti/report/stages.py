"""Stages of a run: which are trainings, with how many steps, and how long each took."""

from tutti.client.plain import Plain
from tutti.contracts.pipeline.v1 import Stage
from tutti.web.formats import duration

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


def taken(seconds: float, resumptions: int) -> str:
    """The duration of a stage, as text, with a note if it includes idle time."""
    return f"{duration(seconds)}{' with a stop in between' if resumptions else ''}"


def seconds(stage: Stage) -> float:
    """The duration of a stage in seconds; 0 for one that was reused."""
    if not stage.HasField("started_at") or not stage.HasField("ended_at"):
        return 0.0
    return (stage.ended_at.ToNanoseconds() - stage.started_at.ToNanoseconds()) / 1e9
