"""The training of a model from random parameters, or from those of a checkpoint, on a dataset: what its recipe says.

Pure.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace

from tutti.chassis.errors import InvalidField
from tutti.model.chunks import Layout
from tutti.model.parameter import parameters as parameters_of
from tutti.model.spec import FieldError, ModelSpec, OptimizerSpec, RopeScaling, SpecError, StepSpec
from tutti.model.training import Training, WeightedDataset
from tutti.pipeline.recipes.declared import values
from tutti.pipeline.recipes.imports import INITIAL, is_of_import
from tutti.pipeline.recipes.sections import ModelPart, TrainPart
from tutti.pipeline.recipes.sizes import SIZES
from tutti.pipeline.recipes.view import View

ANY = "blake3:" + "0" * 64
"""The dataset of a training of which only the model matters."""
PLACES: Mapping[type, str] = {ModelSpec: "model", RopeScaling: "model.rope_scaling"}
"""Records of a training that have keys of the whole recipe, and where these are."""


def model(view: View, train: TrainPart) -> ModelSpec:
    """The model that the recipe describes: that of its size, changed by the keys of `model`. Raises SpecError.

    It is not that of a training that begins with an import.
    """
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


def training(
    view: View, dataset: str, mixture: tuple[WeightedDataset, ...] = (), begun: ModelSpec | None = None
) -> Training:
    """The training on a dataset, or on the mixture that begins with it, without its placement. Raises SpecError.

    `begun` is the model of the import that it continues; rows may be shorter than its context.
    """
    train = view.nearest(TrainPart)
    assert train is not None
    length, made = 0, begun
    if made is None:
        made = model(view, train)
    else:
        made = replace(made, document_mask=train.document_mask, scalar_head=False, value_model=False)
        length = view.tokens.context if view.tokens.context < made.context else 0
    return Training(
        model=made,
        optimizer=OptimizerSpec(**values(OptimizerSpec, train), decay_end=train.steps + 1),
        step=StepSpec(**values(StepSpec, train), length=length),
        dataset=dataset,
        mixture=mixture,
        **values(Training, train),
    )


def parameters(view: View) -> int:
    """The parameters of the model that the recipe describes and trains, each counted once; 0 where there is none."""
    found = own_model(view)
    return Layout(found).parameters if found else 0


def own_model(view: View) -> ModelSpec | None:
    """The model that the recipe describes and trains; None where there is none."""
    if view.nearest(TrainPart) is None or goes_on_with_import(view):
        return None
    return training(view, ANY).model


def goes_on_with_import(view: View) -> bool:
    """True if the training that the recipe goes back to begins with the model of an import."""
    trains = (each for each in view.back() if isinstance(each.instance.section, TrainPart))
    found = next(trains, None)
    refs = found.instance.inputs.get(INITIAL, ()) if found else ()
    return any(is_of_import(ref, view.recipe.stages) for ref in refs)
