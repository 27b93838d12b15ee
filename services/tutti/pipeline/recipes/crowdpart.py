"""The keys of a recipe that describe a simulated crowd."""

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.chassis.errors import InvalidField
from tutti.pipeline.recipes.keytypes import LONGEST, Positive


class CrowdPart(Part):
    simulated: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="file (.yaml) that defines simulated annotators, or its text",
    )
    annotators: Positive = Field(default=20, description="number of simulated annotators")


def check_crowd(key: str, text: str) -> None:
    """Raise InvalidField, by the recipe's key, for a text that defines no crowd."""
    from tutti.judgements.crowds import Crowd, InvalidCrowd  # numpy, which a recipe without a crowd does not need

    try:
        Crowd.read(text)
    except InvalidCrowd as error:
        expected = "YAML with `utility` and `kinds` of annotators"
        raise InvalidField(key, seen=str(error), expected=expected) from error
