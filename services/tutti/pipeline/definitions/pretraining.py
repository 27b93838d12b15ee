"""The training of a model from random parameters, or from those of a checkpoint, on a dataset: what its recipe says.

Pure.
"""

from tutti.model.chunks import Layout
from tutti.model.spec import ModelSpec, OptimizerSpec, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.recipes.declared import values
from tutti.pipeline.recipes.sections import TrainPart
from tutti.pipeline.recipes.sizes import SIZES
from tutti.pipeline.recipes.view import View

NUMBER_BYTES = 4  # parameters, gradients, moments and logits are float32
STATE_NUMBERS = 3  # of a parameter in a checkpoint: itself and two moments
ANY = "blake3:" + "0" * 64
"""The dataset of a training of which only the model matters."""


def training(view: View, dataset: str, mixture: tuple[WeightedDataset, ...] = ()) -> Training:
    """The training on a dataset, or on the mixture that begins with it, without its placement. Raises SpecError."""
    shape, tokens, train = SIZES[view.recipe.size], view.tokens, view.nearest(TrainPart)
    assert train is not None
    return Training(
        model=ModelSpec(
            vocabulary=tokens.vocabulary,
            width=shape.width,
            layers=shape.layers,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            hidden=shape.hidden,
            context=tokens.context,
            tied=train.tied_embeddings,
            document_mask=train.document_mask,
        ),
        optimizer=OptimizerSpec(**values(OptimizerSpec, train), decay_end=train.steps + 1),
        step=StepSpec(**values(StepSpec, train)),
        dataset=dataset,
        mixture=mixture,
        **values(Training, train),
    )


def parameters(view: View) -> int:
    """The parameters of the model that the recipe trains, each counted once; 0 where it trains none."""
    return Layout(training(view, ANY).model).parameters if view.nearest(TrainPart) is not None else 0
