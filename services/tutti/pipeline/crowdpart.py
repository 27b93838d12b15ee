"""The keys of a recipe that describe a simulated crowd."""

from pydantic import Field

from tutti.chassis.config.recipetext import Part
from tutti.pipeline.recipe import Positive

LONGEST = 16 << 10


class CrowdPart(Part):
    simulated: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="file (.yaml) that defines simulated annotators, or its text",
    )
    annotators: Positive = Field(default=20, description="number of simulated annotators")
