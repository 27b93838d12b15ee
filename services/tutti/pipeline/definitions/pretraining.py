"""The training of a model from random parameters, or from those of a checkpoint, on a dataset: what its recipe says.

Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict

from tutti.chassis.errors import InvalidField
from tutti.model.chunks import Layout
from tutti.model.parameter import parameters as parameters_of
from tutti.model.spec import FieldError, ModelSpec, OptimizerSpec, RopeScaling, SpecError, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.recipes.declared import values
from tutti.pipeline.recipes.sections import ModelPart, TrainPart
from tutti.pipeline.recipes.sizes import SIZES
from tutti.pipeline.recipes.view import View

NUMBER_BYTES = 4  # parameters, gradients, moments and logits are float32
STATE_NUMBERS = 3  # of a parameter in a checkpoint: itself and two moments
ANY = "blake3:" + "0" * 64
"""The dataset of a training of which only the model matters."""
PLACES: Mapping[type, str] = {ModelSpec: "model", RopeScaling: "model.rope_scaling"}
"""Records of a training that have keys of the whole recipe, and where these are."""


def model(view: View, train: TrainPart) -> ModelSpec:
    """The model that the recipe describes: that of its size, changed by the keys of `model`. Raises SpecError."""
    part = view.recipe.model or ModelPart()
    own = values(ModelSpec, part)
    if "heads" in own:
        own.setdefault("kv_heads", own["heads"])
    found = asdict(SIZES[view.recipe.size]) | own
    if found["head_dim"] * found["heads"] == found["width"]:
        found["head_dim"] = 0
    return ModelSpec(
        vocabulary=view.tokens.vocabulary,
        context=view.tokens.context,
        document_mask=train.document_mask,
        rope_scaling=RopeScaling.of(**values(RopeScaling, part.rope_scaling)) if part.rope_scaling else None,
        **found | {"tied": found["tied"] or train.tied_embeddings},
    )


def unworkable(view: View, error: SpecError) -> InvalidField:
    """The error about the key of the recipe that holds what cannot work."""
    place = PLACES.get(error.record) if isinstance(error, FieldError) else None
    if place is None:
        return view.refused("", seen=str(error), expected="a training that can work")
    assert isinstance(error, FieldError)
    key = parameters_of(error.record)[error.field].key
    return InvalidField(f"{place}.{key}", seen=error.seen, expected=error.expected)


def training(view: View, dataset: str, mixture: tuple[WeightedDataset, ...] = ()) -> Training:
    """The training on a dataset, or on the mixture that begins with it, without its placement. Raises SpecError."""
    train = view.nearest(TrainPart)
    assert train is not None
    return Training(
        model=model(view, train),
        optimizer=OptimizerSpec(**values(OptimizerSpec, train), decay_end=train.steps + 1),
        step=StepSpec(**values(StepSpec, train)),
        dataset=dataset,
        mixture=mixture,
        **values(Training, train),
    )


def parameters(view: View) -> int:
    """The parameters of the model that the recipe trains, each counted once; 0 where it trains none."""
    return Layout(training(view, ANY).model).parameters if view.nearest(TrainPart) is not None else 0
