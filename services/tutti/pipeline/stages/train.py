"""The stage `train`: trains a model on a dataset, or on a mixture of several."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial

from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of
from tutti.contracts.committer.v1 import (
    Checkpoint,
)
from tutti.contracts.scheduler.v1 import (
    JobSpec,
    MixedDataset,
)
from tutti.contracts.tokenization.v1 import Dataset, Tokenizer
from tutti.model.footprint import FEWEST_BYTES, NUMBER_BYTES, STATE_NUMBERS, Footprint, footprint
from tutti.model.spec import ModelSpec, SpecError
from tutti.model.training import Initial, Training, WeightedDataset
from tutti.pipeline.definitions.checkpoints import begun_of, tokenizer_of
from tutti.pipeline.definitions.definition import MAKE_RUN, Role, StageContext
from tutti.pipeline.definitions.mixing import weighted
from tutti.pipeline.definitions.pretraining import (
    ANY,
    goes_on_with_import,
    parameters,
    training,
    unworkable,
)
from tutti.pipeline.definitions.tokenized import dataset_row
from tutti.pipeline.definitions.trainingstage import TrainingStage, leaf_rows, misfits
from tutti.pipeline.recipes.imports import IMPORTED, INITIAL, TOKENIZER
from tutti.pipeline.recipes.instance import Keys
from tutti.pipeline.recipes.sections import TrainPart
from tutti.pipeline.recipes.values import Inputs, Measure, Result
from tutti.pipeline.recipes.view import View


class TrainStage(TrainingStage):
    name = "train"
    roles = (
        Role("dataset", Dataset, default="tokenization"),
        Role("mixture", Dataset, required=False, many=True, given=False),
        Role(INITIAL, Checkpoint, required=False),
    )
    section = TrainPart
    measured = Measure(MAKE_RUN, 342.0, 800 * 16 * 256 * 1_279_104)
    # No request tells the trainer's version; a change of the arithmetic of a step changes it.
    version = "train-1"
    expensive = True

    def filled(self, section: TrainPart, keys: Keys) -> TrainPart:
        """With rows, warmup and the interval of checkpoints."""
        rows = leaf_rows(keys, section.rows, section.batch, section.microbatches)
        values = {
            "rows": rows,
            "batch": None,
            "warmup": section.steps // 20 if section.warmup is None else section.warmup,
            "checkpoint_every": section.checkpoint_every or max(1, section.steps // 10),
        }
        return section.model_copy(update=values)

    def problems(self, view: View, filled: Collection[str]) -> Iterator[InvalidField]:
        train = _part(view)
        conflicts = list(misfits(view.instance.keys, train))
        yield from conflicts
        if goes_on_with_import(view):
            if view.recipe.model is not None and "train" not in view.recipe.asked:
                seen, expected = "a model", f"nothing: {view.key('')} continues the model of an import"
                yield InvalidField("model", seen=seen, expected=expected)
        elif not conflicts and None not in (train.rows, train.warmup, train.checkpoint_every):
            try:
                training(view, ANY)
            except SpecError as error:
                yield unworkable(view, error)

    def request(self, asked: StageContext) -> JobSpec:
        train, dataset, made = _part(asked.view), asked.one("dataset"), _training(asked)
        return JobSpec(
            training=made.to_json(),
            training_digest=made.digest(),
            dataset_manifest_key=dataset.manifest_key,
            dataset_digest=dataset.content_digest,
            leaves=made.step.leaves,
            steps=made.steps,
            data_parallel=train.ranks,
            shard=train.sharded,
            shrink=train.shrink,
            attempts=train.attempts,
            initial=made.initial.checkpoint if made.initial else "",
            mixed=[
                MixedDataset(manifest_key=each.manifest_key, digest=each.content_digest)
                for each in asked.all("mixture")
            ],
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        # The name of the checkpoint that it begins with does not decide; its state is among the inputs.
        return {"training": replace(_training(asked), initial=None).digest()}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the model of an import that it continues, the other datasets of its mixture, and their weights."""
        if (initial := asked.get(INITIAL)) is not None:
            initial = _checked_initial(asked, initial, host)
            asked = replace(asked, inputs={**asked.inputs, INITIAL: (initial,)})
        _check_dataset(asked, host)
        mixture = asked.view.recipe.mixture
        if mixture is None:
            return asked.inputs
        own, *others = weighted(mixture, asked.one("dataset"), host)
        return {**asked.inputs, "dataset": (own,), "mixture": tuple(others)}

    def lookups(self, view: View, host: Host) -> Iterator[Callable[[], object]]:
        for name in view.instance.inputs.get(INITIAL, ()):
            if name.startswith(IMPORTED):
                yield partial(_look_up, view, name, host)

    def trained_parameters(self, view: View) -> int | None:
        return parameters(view) or None

    def step_tokens(self, view: View) -> int | None:
        train = _part(view)
        tokens: int = train.microbatches * train.rows * view.tokens.context
        return tokens

    def amount(self, view: View, pages: int) -> float:
        """Tokens x parameters, to which the operations are in proportion (Kaplan et al. 2020, section 2.1)."""
        return float(_part(view).steps * (self.step_tokens(view) or 0) * parameters(view))

    def disk(self, view: View) -> int | None:
        """All checkpoints: none is removed by itself."""
        train = _part(view)
        count: int = -(-train.steps // train.checkpoint_every)
        return count * STATE_NUMBERS * NUMBER_BYTES * parameters(view) or None

    def memory(self, view: View) -> int | None:
        """At least: what each rank holds, and the snapshots of the state."""
        found = _footprint(view, FEWEST_BYTES)
        return found.gang if found else None

    def rank_memory(self, view: View) -> int | None:
        """At least; temporary results, and torch itself, come on top."""
        found = _footprint(view, FEWEST_BYTES)
        return found.rank if found else None

    def footprint(self, view: View, begun: ModelSpec | None = None) -> Footprint | None:
        return _footprint(view, NUMBER_BYTES, begun)


def _part(view: View) -> TrainPart:
    return view.section(TrainPart)


def _footprint(view: View, activation_bytes: int, begun: ModelSpec | None = None) -> Footprint | None:
    """The memory of the training; None where it follows from an import whose model, `begun`, is not known."""
    imported = goes_on_with_import(view)
    if imported and begun is None:
        return None
    train, made = _part(view), training(view, ANY, begun=begun if imported else None)
    return footprint(made, train.ranks, train.sharded, activation_bytes=activation_bytes)


def _training(asked: StageContext) -> Training:
    """The training; the first dataset of a mixture is the stage's own."""
    own, others, initial = asked.one("dataset"), asked.all("mixture"), asked.get(INITIAL)
    shares = (own, *others) if others else ()
    mixture = tuple(WeightedDataset(each.content_digest, each.weight) for each in shares)
    begun = initial.begun.model if initial and initial.begun else None
    made = training(asked.view, own.content_digest, mixture, begun)
    if initial is None:
        return made
    return replace(made, initial=Initial(checkpoint_of(initial.manifest_key), initial.content_digest))


def _check_dataset(asked: StageContext, host: Host) -> None:
    """Refuse a dataset whose rows this model cannot read. Raises InvalidField.

    Rows that the recipe itself makes can be such only if their tokenizer came with an import.
    """
    dataset, view = asked.one("dataset"), asked.view
    foreign = any(TOKENIZER in each.instance.inputs for each in view.back())
    row = dataset_row(host, dataset) if foreign or dataset.resource.startswith("datasets/") else None
    if row is None:
        return
    vocabulary = kind_of(Tokenizer).get(host.channel("tokenization"), row.tokenizer).vocabulary
    own = view.tokens.context, _training(asked).model.vocabulary
    for what, seen, expected, fits in (
        ("data.context", own[0], row.context, own[0] == row.context),
        ("tokenizer.vocabulary", own[1], vocabulary, own[1] >= vocabulary),
    ):
        if not fits:
            raise view.refused("from.dataset", seen=f"{what}: {seen}", expected=f"{what}: {expected}, as in {row.name}")


def _checked_initial(asked: StageContext, initial: Result, host: Host) -> Result:
    """The checkpoint that it begins with, with its model if that came with an import.

    Raises InvalidField for parameters of another model, or over other tokens.
    """
    view, name = asked.view, checkpoint_of(initial.manifest_key)
    began = begun_of(view, INITIAL, initial, host)
    dataset, version = dataset_row(host, asked.one("dataset")), tokenizer_of(began, host)
    other = f"tokenizers/{version.removeprefix('blake3:')}"
    if dataset is not None and version and dataset.tokenizer != other:
        raise view.refused(
            f"from.{INITIAL}",
            seen=f"{name} over {other}",
            expected=f"a checkpoint over {dataset.tokenizer}, or a dataset over {other}: tokenizer.of, or the role "
            f"{TOKENIZER} of a stage tokenization",
        )
    if dataset is not None and kind_of(Tokenizer).get(host.channel("tokenization"), dataset.tokenizer).foreign:
        _check_shape(view, name, began.model)
        return replace(initial, begun=began)
    own, theirs = _training(asked).model, began.model
    differ = sorted(each.name for each in fields(own) if getattr(own, each.name) != getattr(theirs, each.name))
    if differ:
        seen = ", ".join(f"{field} {getattr(own, field)}" for field in differ)
        expected = ", ".join(f"{field} {getattr(theirs, field)}" for field in differ)
        raise view.refused(f"from.{INITIAL}", seen=seen, expected=f"the model of {name}: {expected}")
    return initial


def _look_up(view: View, name: str, host: Host) -> None:
    """Refuse an import whose model cannot read the rows of the recipe. Raises InvalidField."""
    found: Checkpoint = kind_of(Checkpoint).get(host.channel("committer"), name)
    _check_shape(view, name, begun_of(view, INITIAL, Result(name, found.manifest_key, ""), host).model)


def _check_shape(view: View, name: str, model: ModelSpec) -> None:
    """Refuse keys of the recipe that do not fit the model of an import. Raises InvalidField."""
    if view.tokens.context > model.context:
        seen = f"{name} with a context of {model.context:,} tokens"
        expected = f"one of at least data.context ({view.tokens.context:,}); or a data.context of at most that"
        raise view.refused(f"from.{INITIAL}", seen=seen, expected=expected)
    if _part(view).tied_embeddings and not model.tied:
        raise view.refused("tied_embeddings", seen=True, expected=f"false: {name} has two matrices")


STAGE = TrainStage()
