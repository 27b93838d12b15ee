"""The size of the model of a recipe.

Pure.
"""

from tutti.model.chunks import Layout
from tutti.pipeline.recipes.recipe import Recipe

NUMBER_BYTES = 4  # parameters, gradients, moments and logits are float32
STATE_NUMBERS = 3  # of a parameter in a checkpoint: itself and two moments


def parameters(recipe: Recipe) -> int:
    """The parameters of the model that a recipe trains, each counted once; 0 where it trains none."""
    if recipe.train is None:
        return 0
    return Layout(recipe.training("blake3:" + "0" * 64).model).parameters
