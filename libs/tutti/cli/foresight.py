"""Mistakes of a recipe that are found in this process, so that no platform is started for a recipe that is refused.

Promises: the errors are those of the platform, because the same services find them; a recipe that names resources,
which only a platform has, is left to the platform.
"""

from pathlib import Path

from tutti.chassis.errors import Problem
from tutti.chassis.rpc.kinds import owners
from tutti.cli import recipefiles
from tutti.cli.access import in_process, is_up
from tutti.cli.failures import MISUSE, Failure
from tutti.client import READING_SECONDS, Client
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CheckRecipeResponse, CreateRunRequest


def refuse(data_dir: Path, wanted: CreateRunRequest, what: str) -> None:
    """Raise the first error of a recipe that is called `what`, if the platform of `data_dir` is down.

    Of a folder, only some records of the first files are read. Raises Failure.
    """
    # It brings pydantic, for which few other commands wait.
    from tutti.cli import recipeclassifiers

    if is_up(data_dir) or recipeclassifiers.files_in(wanted.recipe, wanted.overrides):
        return
    request = CheckRecipeRequest(
        recipe=wanted.recipe, overrides=wanted.overrides, directory=wanted.directory, all_problems=True
    )
    with in_process(data_dir) as services:
        client = Client.of_channels(services.channel)
        recipefiles.send(client, request)
        try:
            found = client.pipeline.CheckRecipe(request, timeout=READING_SECONDS)
        except Problem:  # the platform meets it too, and waits where that helps
            return
        doubtful = services.missed or names_resources(found)
    if found.problems and not doubtful:
        first = found.problems[0]
        key = what if first.key == "recipe" else first.key
        raise Failure(f"{key}: expected {first.expected}, got {first.seen}", MISUSE)


def names_resources(found: CheckRecipeResponse) -> bool:
    """Return whether a problem of a recipe is with the name of a resource."""
    return any(each.seen.strip("'").partition("/")[0] in owners() for each in found.problems if "/" in each.seen)
