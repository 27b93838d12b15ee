"""The stage `train`: trains a model on a dataset, or on a mixture of several."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from tutti.backbone.blobs import BlobMissing
from tutti.chassis.errors import InvalidField
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.keys import checkpoint_of
from tutti.checkpoints.manifest import CheckpointBody
from tutti.contracts.committer.v1 import (
    Checkpoint,
)
from tutti.contracts.scheduler.v1 import (
    JobSpec,
    MixedDataset,
)
from tutti.contracts.tokenization.v1 import Dataset, Tokenizer
from tutti.model.training import Initial, Training, WeightedDataset
from tutti.pipeline.definitions.definition import MAKE_RUN, Flat, Role, StageContext
from tutti.pipeline.definitions.mixing import weighted
from tutti.pipeline.definitions.tokenized import dataset_row
from tutti.pipeline.definitions.trainingstage import TrainingStage, leaf_rows, misfits
from tutti.pipeline.recipes.modelsize import NUMBER_BYTES, STATE_NUMBERS, parameters
from tutti.pipeline.recipes.recipe import Recipe, TrainPart
from tutti.pipeline.recipes.sizes import SIZES
from tutti.pipeline.recipes.values import Inputs, Measure, Result
from tutti.records.errors import CorpusError

SNAPSHOTS = 2  # that a node keeps of what its ranks hold


class TrainStage(TrainingStage):
    name = "train"
    roles = (
        Role("dataset", Dataset, default="tokenization"),
        Role("mixture", Dataset, required=False, many=True, given=False),
        Role("initial", Checkpoint, required=False),
    )
    section = TrainPart
    measured = Measure(MAKE_RUN, 342.0, 800 * 16 * 256 * 1_279_104)
    # No request tells the trainer's version; a change of the arithmetic of a step changes it.
    version = "train-1"
    expensive = True

    def flat(self, recipe: Recipe) -> Mapping[str, Flat]:
        return {"train": Flat(recipe)} if recipe.train is not None else {}

    def apply(self, recipe: Recipe, section: TrainPart) -> Recipe:
        return recipe.model_copy(update={"train": section})

    def filled(self, section: TrainPart) -> TrainPart:
        """With rows, warmup and the interval of checkpoints."""
        rows = leaf_rows(self.name, section.rows, section.batch, section.microbatches)
        values = {
            "rows": rows,
            "batch": None,
            "warmup": section.steps // 20 if section.warmup is None else section.warmup,
            "checkpoint_every": section.checkpoint_every or max(1, section.steps // 10),
        }
        return section.model_copy(update=values)

    def problems(self, recipe: Recipe, filled: Collection[str]) -> Iterator[InvalidField]:
        train = _part(recipe)
        yield from misfits(self.name, train)

    def request(self, asked: StageContext) -> JobSpec:
        train, dataset, training = _part(asked.recipe), asked.one("dataset"), _training(asked)
        return JobSpec(
            training=training.to_json(),
            training_digest=training.digest(),
            dataset_manifest_key=dataset.manifest_key,
            dataset_digest=dataset.content_digest,
            leaves=training.step.leaves,
            steps=training.steps,
            data_parallel=train.ranks,
            shard="" if train.shard == "optimizer" else train.shard,
            shrink=train.shrink,
            attempts=train.attempts,
            initial=training.initial.checkpoint if training.initial else "",
            mixed=[
                MixedDataset(manifest_key=each.manifest_key, digest=each.content_digest)
                for each in asked.all("mixture")
            ],
        )

    def parameters(self, asked: StageContext) -> Mapping[str, object]:
        # The name of the checkpoint that it begins with does not decide; its state is among the inputs.
        return {"training": replace(_training(asked), initial=None).digest()}

    def today(self, asked: StageContext, host: Host) -> Inputs:
        """With the other datasets of its mixture, and the weight of each."""
        _check_dataset(asked, host)
        if (initial := asked.get("initial")) is not None:
            _check_initial(asked, initial, host)
        if asked.recipe.mixture is None:
            return asked.inputs
        own, *others = weighted(asked.recipe.mixture, asked.one("dataset"), host)
        return {**asked.inputs, "dataset": (own,), "mixture": tuple(others)}

    def amount(self, recipe: Recipe, pages: int) -> float:
        """Tokens x parameters, to which the operations are in proportion (Kaplan et al. 2020, section 2.1)."""
        train = _part(recipe)
        assert train.rows is not None
        tokens = train.steps * train.microbatches * train.rows * recipe.data.context
        return float(tokens * parameters(recipe))

    def disk(self, recipe: Recipe) -> int:
        """All checkpoints: none is removed by itself."""
        train = _part(recipe)
        assert train.checkpoint_every is not None
        count = -(-train.steps // train.checkpoint_every)
        return count * STATE_NUMBERS * NUMBER_BYTES * parameters(recipe)

    def memory(self, recipe: Recipe) -> int:
        """At least: each rank's parameters and gradient, a second gradient for audits, logits of a microbatch with
        theirs, the gradient of the output matrix while it is added up, the state, its snapshots.

        Activations, and torch itself, come on top.
        """
        train, model = _part(recipe), parameters(recipe)
        assert train.rows is not None
        vocabulary = recipe.tokenizer.vocabulary
        logits, head = train.rows * recipe.data.context * vocabulary, vocabulary * SIZES[recipe.size].width
        rank = (3 if train.audit_every else 2) * model + 2 * logits + head
        return NUMBER_BYTES * (train.ranks * rank + (1 + SNAPSHOTS) * STATE_NUMBERS * model)


def _part(recipe: Recipe) -> TrainPart:
    assert recipe.train is not None
    return recipe.train


def _training(asked: StageContext) -> Training:
    """The training; the first dataset of a mixture is the stage's own."""
    own, others, initial = asked.one("dataset"), asked.all("mixture"), asked.get("initial")
    shares = (own, *others) if others else ()
    mixture = tuple(WeightedDataset(each.content_digest, each.weight) for each in shares)
    training = asked.recipe.training(own.content_digest, mixture)
    if initial is None:
        return training
    return replace(training, initial=Initial(checkpoint_of(initial.manifest_key), initial.content_digest))


def _check_dataset(asked: StageContext, host: Host) -> None:
    """Refuse a dataset that the recipe names and whose rows this model cannot read. Raises InvalidField."""
    dataset = asked.one("dataset")
    row = dataset_row(host, dataset) if dataset.resource.startswith("datasets/") else None
    if row is None:
        return
    vocabulary = kind_of(Tokenizer).get(host.channel("tokenization"), row.tokenizer).vocabulary
    own = asked.recipe.data.context, asked.recipe.tokenizer.vocabulary
    for what, seen, expected, fits in (
        ("data.context", own[0], row.context, own[0] == row.context),
        ("tokenizer.vocabulary", own[1], vocabulary, own[1] >= vocabulary),
    ):
        if not fits:
            raise InvalidField(
                "train.from.dataset", seen=f"{what}: {seen}", expected=f"{what}: {expected}, as in {row.name}"
            )


def _check_initial(asked: StageContext, initial: Result, host: Host) -> None:
    """Refuse parameters of another model, or over other tokens. Raises InvalidField."""
    name = checkpoint_of(initial.manifest_key)
    try:
        began = CheckpointBody.decode(host.blobs.get(initial.manifest_key)).training
    except (BlobMissing, CorpusError) as error:
        raise InvalidField("train.from.initial", seen=name, expected=f"a checkpoint that is there: {error}") from error
    model = _training(asked).model.to_dict()
    differ = {key: value for key, value in began.model.to_dict().items() if model[key] != value}
    if differ:
        seen = ", ".join(f"{key} {model[key]}" for key in sorted(differ))
        expected = ", ".join(f"{key} {value}" for key, value in sorted(differ.items()))
        raise InvalidField("train.from.initial", seen=seen, expected=f"the model of {name}: {expected}")
    own, other = dataset_row(host, asked.one("dataset")), dataset_row(host, Result("", "", began.dataset))
    if own is not None and other is not None and own.tokenizer != other.tokenizer:
        raise InvalidField(
            "train.from.initial",
            seen=f"{name} over {other.tokenizer}",
            expected=f"a checkpoint over {own.tokenizer}, or tokenizer.of: {other.tokenizer}",
        )


STAGE = TrainStage()
