"""Files of text that a recipe names: the command sends their texts, so that the platform need not read them.

Promises: a recipe that somebody else wrote makes the command send nothing but what lies below the recipe's own folder,
links followed, and what the command line names. Inputs are never sent.
"""

from collections.abc import Sequence
from pathlib import Path

from tutti.backbone.ours import open_regular
from tutti.chassis.errors import Unimplemented
from tutti.cli.failures import MISUSE, Failure
from tutti.client import Client
from tutti.contracts.pipeline.v1 import CheckRecipeRequest, CreateRunRequest, ListRecipeFilesRequest


def send(client: Client, request: CheckRecipeRequest | CreateRunRequest) -> None:
    """Add the texts of the files that the recipe of a request names. Raises Failure."""
    asked = ListRecipeFilesRequest(recipe=request.recipe, overrides=request.overrides)
    try:
        named = client.pipeline.ListRecipeFiles(asked).files
    except Unimplemented:  # a platform before 0.3
        return
    for path in dict.fromkeys(each.path for each in named):
        if (text := _text(path, Path(request.directory), request.overrides)) is not None:
            request.files[path] = text


def _text(path: str, folder: Path, overrides: Sequence[str]) -> str | None:
    """The text of a file that may be sent; None for one that may not, or that is not here. Raises Failure."""
    from tutti.chassis.config.recipetext import MOST_FILE_BYTES

    real, own = (folder / path).resolve(), folder.resolve()
    asked_for = path in (override.partition("=")[2].strip(" '\"") for override in overrides)
    if not (asked_for or real.is_relative_to(own)):
        return None
    try:
        with open_regular(str(real)) as file:
            data = file.read(MOST_FILE_BYTES + 1)
            text = data.decode(errors="strict" if len(data) <= MOST_FILE_BYTES else "ignore")
    except FileNotFoundError:
        return None  # it may be where the platform runs
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Failure(f"{real} cannot be read: {said}", MISUSE) from error
    if len(data) > MOST_FILE_BYTES:
        raise Failure(
            f"{real} has more than {MOST_FILE_BYTES >> 10} KiB; a file that a recipe names has at most so many", MISUSE
        )
    return text
